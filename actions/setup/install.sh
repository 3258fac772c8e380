#!/usr/bin/env bash
# Install the toolkit that this file is a part of into a virtual environment of its own.
#
# PYTHON             the interpreter to make it with
# RUNNER_TEMP        the folder to make it in, which the runner empties after the job
# RUNNER_TOOL_CACHE  the folder that keeps downloaded wheels, if it is writable: a self-hosted runner keeps it
# TORCHPERF_NEEDS    store: what a store needs, too; upload: only what sends records. Default: all but the store
#
# Outputs: command, the toolkit's command, and python, its interpreter. Nothing else of the job changes: not PATH, not
# the caller's Python, not the folder of the action. A later use in the same job takes what an earlier one made, where
# that is enough.
set -euo pipefail

readonly deadline=600
readonly needs=${TORCHPERF_NEEDS:-}
readonly requirements=actions/setup/requirements${needs:+-$needs}.txt
readonly installer=actions/setup/requirements-uv.txt

# The caller's index, proxy, certificates and cache stay. These would make pip download something else, or refuse:
# containers of PyTorch, for one, come with PIP_CONSTRAINT for the packages that are under test here. Two get a value,
# which overrides the pip.conf of a runner, too.
unset PYTHONHOME PYTHONPATH PYTHONWARNINGS PIP_BUILD_CONSTRAINT PIP_EDITABLE PIP_PYTHON PIP_REQUIREMENT
export PIP_CONSTRAINT=/dev/null PIP_REQUIRE_VIRTUALENV=0
while read -r name; do
  unset "$name" # uv takes wheels that are here, and nothing from anywhere else
done < <(compgen -A export UV_ || true)

fail() {
  printf '::error title=torchperf cannot be installed::%s\n' "$1"
  exit 1
}

# What "$1" tells of the Python that they are installed for, and the files after it.
fingerprint() {
  {
    "$PYTHON" -I -c "import sys, sysconfig; print($1)"
    find "${@:2}" -type f ! -name '*.pyc' -exec cksum {} + | LC_ALL=C sort
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

# The wheels are exactly those that lock.sh has seen, whatever the index serves today. A cache appears at once and whole,
# so that two jobs of one machine may fill it.
download() {
  rm -rf "$wheels" || true # at once, as any moment later a job that was faster may install from it
  local pip=$PYTHON
  if ! "$pip" -I -c 'import pip' 2>/dev/null; then
    pip=$home/pip/bin/python
    "$PYTHON" -I -m venv "$home/pip" || fail "$PYTHON -m venv failed, see the log above. Does the runner's disk have room?"
  fi
  mkdir -p "${wheels%/*}"
  # Of older locks, and of jobs that were killed here: a runner may keep its tool cache for years.
  find "${wheels%/*}" -maxdepth 1 -name 'torchperf-wheels-*' -mtime +30 -exec rm -rf {} + 2>/dev/null || true
  local new
  new=$(mktemp -d "$wheels.XXXXXX")
  with_deadline "$pip" -I -m pip download --quiet --disable-pip-version-check \
    --timeout "${PIP_DEFAULT_TIMEOUT:-30}" --retries "${PIP_RETRIES:-3}" --require-hashes --only-binary :all: \
    --requirement "$requirements" --requirement "$installer" --dest "$new" ||
    fail "pip failed or took more than ${deadline} s, see the log above. Can the runner reach a package index? \
Is it Linux with glibc, or macOS on Apple silicon?"
  chmod -R a+rX "$new" # for jobs of other users, too: those in a container are root's
  rm -rf "$home/pip"
  if [[ -e $wheels ]] || ! mv "$new" "$wheels" 2>/dev/null; then
    wheels=$home/wheels # what is there is another user's, or that of a job that was faster
    mv "$new" "$wheels"
  fi
}

# Every file has a hash of the lock: a cache is written by jobs that run what is measured, so it is not believed.
is_good() {
  [[ -d $wheels ]] && "$PYTHON" -I - "$wheels" "$requirements" "$installer" <<'PY'
import hashlib, pathlib, re, sys
folder, *locks = map(pathlib.Path, sys.argv[1:])
known = {hash for lock in locks for hash in re.findall("sha256:([0-9a-f]{64})", lock.read_text())}
files = list(folder.iterdir())
found = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file() and not file.is_symlink()}
sys.exit(not files or len(found) < len(files) or not found <= known)
PY
}

# uv takes a second where pip takes twenty. It is one of the wheels, and none of the job.
unpack_installer() {
  "$PYTHON" -I - "$wheels" "$home/uv" <<'PY'
import pathlib, sys, zipfile
(wheel,) = pathlib.Path(sys.argv[1]).glob("uv-*.whl")
with zipfile.ZipFile(wheel) as file:
    (name,) = (name for name in file.namelist() if name.endswith(".data/scripts/uv"))
    pathlib.Path(sys.argv[2]).write_bytes(file.read(name))
PY
  chmod +x "$home/uv"
}

run_uv() {
  with_deadline "$home/uv" "$@" --quiet --no-config --offline --no-python-downloads --cache-dir "$home/cache"
}

# Uncompiled: most modules of the dependencies are never imported in this job.
install_wheels() {
  unpack_installer &&
    run_uv venv --clear --no-project --python "$PYTHON" "$home/venv" &&
    run_uv pip install --python "$home/venv/bin/python" --no-index --find-links "$wheels" --require-hashes \
      --only-binary :all: --requirement "$requirements"
}

# A cache that is not good, or not whole, is as if there were none. The toolkit itself needs no build.
install() {
  rm -rf "$home"
  mkdir -p "$home"
  if ! is_good || ! install_wheels; then
    download
    install_wheels ||
      fail "uv failed or took more than ${deadline} s, see the log above. Does the runner's disk have room?"
  fi
  packages=$("$home/venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -R torchperf_ci "$packages"
  cp -R workflows-templates "$packages/torchperf_ci/init" # as the wheel has them
  rm -rf "$home/cache" "$home/uv"
}

# -I: the job's PYTHONPATH and working directory are for the Python under test, and are handed on to it untouched.
write_command() {
  cat >"$home/unchecked" <<'SH2'
#!/bin/sh
exec "${0%/*}/venv/bin/python" -I -m torchperf_ci "$@"
SH2
  chmod +x "$home/unchecked"
  "$home/unchecked" --help >/dev/null || fail "the installed command does not start, see the log above."
  mv "$home/unchecked" "$home/torchperf"
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f $requirements ]] || fail "there is no extra '$needs': give store, or none"
same=$RUNNER_TEMP/torchperf-$(fingerprint 'sys.executable, sys.version' torchperf_ci actions/setup/requirements*.txt)
case $needs in
  upload) enough=("$same-upload" "$same" "$same-store") ;;
  store) enough=("$same-store") ;;
  *) enough=("$same" "$same-store") ;;
esac
home=${enough[0]}
for made in "${enough[@]}"; do
  if [[ -x $made/torchperf ]]; then
    home=$made
    break
  fi
done
if [[ ! -x $home/torchperf ]]; then
  keep=$RUNNER_TEMP
  if [[ -n ${RUNNER_TOOL_CACHE:-} ]] && mkdir -p "$RUNNER_TOOL_CACHE" 2>/dev/null && [[ -w $RUNNER_TOOL_CACHE ]]; then
    keep=$RUNNER_TOOL_CACHE
  fi
  wheels=$keep/torchperf-wheels-$(fingerprint 'sys.version_info[:2], sysconfig.get_platform()' "$requirements" "$installer")
  install
  write_command
fi
printf 'command=%s\npython=%s\n' "$home/torchperf" "$home/venv/bin/python" >>"$GITHUB_OUTPUT"
