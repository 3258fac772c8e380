#!/usr/bin/env bash
# Compare. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: exit-code, and those of the command.
set -euo pipefail
# shellcheck source=/dev/null
source "${BASH_SOURCE[0]%/*}/../setup/signals.sh"

readonly worse=1 inconclusive=5

if [[ -z ${TORCHPERF_PYTHON:-} ]]; then
  # Two directories of records, or two Pythons, need none.
  TORCHPERF_PYTHON=$(command -v python || command -v python3 || true)
fi
if [[ -z ${TORCHPERF_OUT:-} ]]; then
  TORCHPERF_OUT=$(mktemp -d "$RUNNER_TEMP/torchperf-verdicts.XXXXXX")/verdicts.json
fi
export TORCHPERF_PYTHON TORCHPERF_OUT
# The command's own warn would hide what it found.
tolerant=
if [[ ${TORCHPERF_ON_FAILURE:-} == warn ]]; then
  tolerant=true
  export TORCHPERF_ON_FAILURE=error
fi
status=0
run_signalled "$TORCHPERF" compare || status=$?
printf 'exit-code=%s\n' "$status" >>"$GITHUB_OUTPUT"
# A red mark must mean that something is worse.
if [[ $status == "$inconclusive" ]]; then
  echo '::warning title=torchperf::The comparison is inconclusive; the summary says why'
  exit 0
fi
if [[ -n $tolerant && $status == "$worse" ]]; then
  exit 0
fi
exit "$status"
