#!/usr/bin/env bash
# Plan. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: those of the command.
set -euo pipefail

if [[ -n ${TORCHPERF_VERDICTS:-} && -z ${TORCHPERF_OUT:-} ]]; then
  TORCHPERF_OUT=$(mktemp -d "$RUNNER_TEMP/torchperf-bisections.XXXXXX")
  export TORCHPERF_OUT
fi
exec "$TORCHPERF" plan
