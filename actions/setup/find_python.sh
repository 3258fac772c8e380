#!/usr/bin/env bash
# Find a Python that is already here and can hold the toolkit: CPython that makes virtual environments, of a version
# that the requirements have wheels for, and neither free-threaded nor a Mac's for Intel, for which some have none.
#
# Output: python, an absolute path, or nothing where there is none.
set -euo pipefail

if [[ ${RUNNER_OS:-} == Windows ]]; then
  echo '::error title=torchperf::Windows runners are not supported; use a Linux or macOS runner'
  exit 1
fi

# The first names are exact, so that what the caller calls python3 (a nightly, a PyPy, a conda) is the last resort.
# Each is tried, not only looked up: Debian has a Python without ensurepip, pyenv a name without a Python.
readonly check='
import ensurepip, os, sys, sysconfig, venv
if not (3, 10) <= sys.version_info[:2] <= (3, 14) or sys.implementation.name != "cpython":
    sys.exit(1)
if sysconfig.get_config_var("Py_GIL_DISABLED") or (sys.platform == "darwin" and os.uname().machine != "arm64"):
    sys.exit(1)
print(sys.executable)
'
found=
for name in python3.13 python3.12 python3.14 python3.11 python3.10 python3 python; do
  if found=$("$name" -I -c "$check" 2>/dev/null); then
    break
  fi
  found= # whatever it printed before it failed
done
printf 'python=%s\n' "$found" >>"$GITHUB_OUTPUT"
