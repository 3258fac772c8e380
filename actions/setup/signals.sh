#!/usr/bin/env bash
# For scripts to source: run a command so that it hears the signals of the step.

# Run "$@" to its end and return its exit code.
#
# A runner that cancels a job signals the step's shell alone, and kills what is left a few seconds later. A shell hears
# no signal while it waits for a command in the foreground.
run_signalled() {
  local child signalled=true status
  "$@" &
  child=$!
  trap 'signalled=true; kill "$child" || true' INT TERM
  while [[ -n $signalled ]]; do
    # A signal ends the wait, not the command, which cleans up first.
    signalled=
    status=0
    wait "$child" || status=$?
  done
  trap - INT TERM
  return "$status"
}
