#!/usr/bin/env bash
# Install the toolkit that this file is a part of into a virtual environment of its own.
#
# PYTHON           the interpreter to make it with
# RUNNER_TEMP      the folder to make it in, which the runner empties after the job
# TORCHPERF_EXTRA  an extra of the package to install as well, if any
#
# Outputs: command, the toolkit's command, and python, its interpreter. Nothing else of the job changes: not PATH, not
# the caller's Python, not the folder of the action, which is copied before it is built. A later use in the same job
# finds what the first one made.
set -euo pipefail

readonly deadline=600
readonly project=(LICENSE README.md pyproject.toml torchperf_ci)
readonly requirements=actions/setup/requirements${TORCHPERF_EXTRA:+-$TORCHPERF_EXTRA}.txt

# The caller's index, proxy, certificates and cache stay. This would change where pip installs to, or what: containers
# of PyTorch, for one, come with PIP_CONSTRAINT for the packages that are under test here.
unset PYTHONHOME PYTHONPATH PYTHONWARNINGS
unset PIP_BUILD_CONSTRAINT PIP_CONSTRAINT PIP_DRY_RUN PIP_EDITABLE PIP_NO_BINARY PIP_NO_BUILD_ISOLATION PIP_NO_DEPS
unset PIP_PREFIX PIP_PYTHON PIP_REQUIRE_VIRTUALENV PIP_REQUIREMENT PIP_ROOT PIP_TARGET PIP_USER

fail() {
  printf '::error title=torchperf cannot be installed::%s\n' "$1"
  exit 1
}

# The project as it is here, and the Python that it is installed for.
fingerprint() {
  {
    find "${project[@]}" "$requirements" -type f ! -name '*.pyc' -exec cksum {} + | LC_ALL=C sort
    "$PYTHON" -c 'import sys; print(sys.executable, sys.version)'
  } | cksum | cut -d ' ' -f 1
}

# macOS has no timeout(1), but there is a Python at hand.
with_deadline() {
  "$PYTHON" -I -c '
import subprocess, sys
sys.tracebacklimit = 0
sys.exit(subprocess.run(sys.argv[2:], timeout=float(sys.argv[1])).returncode)
' "$deadline" "$@"
}

# Uncompiled, in half the time: most modules of the dependencies are never imported in this job.
pip_install() {
  with_deadline "$home/venv/bin/python" -I -m pip install --quiet --no-compile --no-user \
    --disable-pip-version-check --timeout "${PIP_DEFAULT_TIMEOUT:-30}" --retries "${PIP_RETRIES:-3}" "$@"
}

# The dependencies are exactly the files that lock.sh has seen, whatever the index serves today, and none of them is
# built here. So is what builds the toolkit, for which nothing more is fetched.
install() {
  rm -rf "$home"
  mkdir -p "$home/source"
  cp -R "${project[@]}" "$home/source"
  "$PYTHON" -I -m venv "$home/venv" ||
    fail "$PYTHON -m venv failed, see the log above. Does the runner's disk have room?"
  pip_install --require-hashes --only-binary :all: --requirement "$requirements" ||
    fail "pip failed or took more than ${deadline} s, see the log above. Can the runner reach a package index?"
  pip_install --no-index --no-deps --no-build-isolation "$home/source" ||
    fail "pip failed or took more than ${deadline} s, see the log above. Is the action's folder complete?"
  rm -rf "$home/source"
}

# -I: the job's PYTHONPATH and working directory are for the Python under test, and are handed on to it untouched.
write_command() {
  cat >"$home/unchecked" <<'SH'
#!/bin/sh
exec "${0%/*}/venv/bin/python" -I -m torchperf_ci "$@"
SH
  chmod +x "$home/unchecked"
  "$home/unchecked" --help >/dev/null ||
    fail "the installed command does not start, see the log above. Does pip's configuration install elsewhere?"
  mv "$home/unchecked" "$home/torchperf"
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f $requirements ]] || fail "there is no extra '${TORCHPERF_EXTRA:-}': give store, or none"
home=$RUNNER_TEMP/torchperf-$(fingerprint)${TORCHPERF_EXTRA:+-$TORCHPERF_EXTRA}
if [[ ! -x $home/torchperf ]]; then
  install
  write_command
fi
printf 'command=%s\npython=%s\n' "$home/torchperf" "$home/venv/bin/python" >>"$GITHUB_OUTPUT"
