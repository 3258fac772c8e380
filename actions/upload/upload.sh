#!/usr/bin/env bash
# Upload. Every input is in TORCHPERF_<FLAG>, where the command looks by itself: no value passes through a shell.
#
# TORCHPERF             the toolkit's command
# TORCHPERF_DEFAULT_TO  where to send records if there is neither an input nor a configuration that could say so
#
# Outputs: artifact, a name for the spool that nobody else in this run takes, and those of the command.
set -euo pipefail

if [[ -z ${TORCHPERF_TO:-} ]]; then
  unset TORCHPERF_TO # an input that is not given; elsewhere an empty one is a mistake
  if [[ -z ${TORCHPERF_CONFIG:-} && ! -e torchperf.yml && -n ${TORCHPERF_DEFAULT_TO:-} ]]; then
    export TORCHPERF_TO=$TORCHPERF_DEFAULT_TO
  fi
fi
# The jobs of a matrix, and several uploads of one job, would all have the job's name.
TORCHPERF_SPOOL_ARTIFACT=torchperf-spool-$GITHUB_JOB-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
export TORCHPERF_SPOOL_ARTIFACT
printf 'artifact=%s\n' "$TORCHPERF_SPOOL_ARTIFACT" >>"$GITHUB_OUTPUT"
exec "$TORCHPERF" upload
