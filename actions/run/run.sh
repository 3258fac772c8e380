#!/usr/bin/env bash
# Measure. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF  the toolkit's command
#
# Outputs: those of the command.
set -euo pipefail
# shellcheck source=/dev/null
source "${BASH_SOURCE[0]%/*}/../setup/signals.sh"

if [[ -z ${TORCHPERF_PYTHON:-} ]]; then
  TORCHPERF_PYTHON=$(command -v python || command -v python3) || {
    echo '::error title=torchperf::No python on PATH: give the input "python", the one that has torch'
    exit 2
  }
fi
if [[ -z ${TORCHPERF_OUT:-} ]]; then
  TORCHPERF_OUT=$(mktemp -d "$RUNNER_TEMP/torchperf-records.XXXXXX")
fi
export TORCHPERF_PYTHON TORCHPERF_OUT
run_signalled "$TORCHPERF" run
