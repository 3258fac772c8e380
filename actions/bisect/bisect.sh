#!/usr/bin/env bash
# Bisect. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: state, exit-code, and those of the command.
set -euo pipefail
# shellcheck source=/dev/null
source "${BASH_SOURCE[0]%/*}/../setup/signals.sh"

readonly inconclusive=5

if [[ -z ${TORCHPERF_PYTHON:-} ]]; then
  # A command that is measured may need none.
  TORCHPERF_PYTHON=$(command -v python || command -v python3 || true)
fi
if [[ -z ${TORCHPERF_OUT:-} ]]; then
  TORCHPERF_OUT=$(mktemp -d "$RUNNER_TEMP/torchperf-culprits.XXXXXX")/culprits.json
fi
if [[ -z ${TORCHPERF_STATE:-} ]]; then
  # Where the next job will look, too.
  TORCHPERF_STATE=$RUNNER_TEMP/torchperf-bisect/state.jsonl
elif [[ $TORCHPERF_STATE != /* ]]; then
  TORCHPERF_STATE=$PWD/$TORCHPERF_STATE
fi
export TORCHPERF_PYTHON TORCHPERF_OUT TORCHPERF_STATE
# Before anything can go wrong: what was learnt until then is worth keeping.
delimiter=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # nobody can guess it
printf 'state<<%s\n%s\n%s\n' "$delimiter" "$TORCHPERF_STATE" "$delimiter" >>"$GITHUB_OUTPUT"

status=0
run_signalled "$TORCHPERF" bisect || status=$?
printf 'exit-code=%s\n' "$status" >>"$GITHUB_OUTPUT"
# A red mark must mean that something is wrong.
if [[ $status == "$inconclusive" ]]; then
  echo '::warning title=torchperf::The bisection is inconclusive; the summary says why'
  exit 0
fi
exit "$status"
