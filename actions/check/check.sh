#!/usr/bin/env bash
# Judge. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: exit-code, and those of the command.
set -euo pipefail
# shellcheck source=/dev/null
source "${BASH_SOURCE[0]%/*}/../setup/signals.sh"

if [[ -z ${TORCHPERF_OUT:-} ]]; then
  TORCHPERF_OUT=$(mktemp -d "$RUNNER_TEMP/torchperf-verdicts.XXXXXX")/verdicts.json
fi
export TORCHPERF_OUT
status=0
run_signalled "$TORCHPERF" check || status=$?
printf 'exit-code=%s\n' "$status" >>"$GITHUB_OUTPUT"
exit "$status"
