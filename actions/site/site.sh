#!/usr/bin/env bash
# Build the dashboard. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a
# shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: dir, the absolute path of the site.
set -euo pipefail

if [[ -z ${TORCHPERF_DIR:-} ]]; then
  TORCHPERF_DIR=$(mktemp -d "$RUNNER_TEMP/torchperf-site.XXXXXX")/site # what mktemp makes is closed to GitHub Pages
fi
export TORCHPERF_DIR
"$TORCHPERF" ingest || [ $? = 3 ] # some records were refused, which it has reported
"$TORCHPERF" site
delimiter=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # nobody can guess it
printf 'dir<<%s\n%s\n%s\n' "$delimiter" "$(cd -- "$TORCHPERF_DIR" && pwd)" "$delimiter" >>"$GITHUB_OUTPUT"
