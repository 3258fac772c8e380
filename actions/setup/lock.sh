#!/usr/bin/env bash
# Renew what install.sh installs: requirements.txt, requirements-store.txt with the extra "store" as well,
# requirements-upload.txt without what only measuring and judging need, and requirements-uv.txt, which installs them; and
# requirements-build.txt, which builds a release.
#
# Each holds everything all the way down, for every Python and system that it runs on, with the hashes of the wheels.
# What is younger than a week is left for the next time, when others have tried it.
#
# UV  the program that resolves them. Default: uv
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Writes the file of this name; the arguments after it are more of uv's.
lock() {
  "${UV:-uv}" pip compile --quiet --no-config --upgrade --universal --python-version 3.10 \
    --generate-hashes --only-binary :all: --exclude-newer '7 days' --no-annotate \
    --custom-compile-command 'bash actions/setup/lock.sh' --output-file "actions/setup/$1" "${@:2}"
}

build_requirements() {
  python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'
}

lock requirements.txt pyproject.toml
lock requirements-store.txt --extra store --constraints actions/setup/requirements.txt pyproject.toml
lock requirements-upload.txt --no-emit-package numpy --constraints actions/setup/requirements.txt pyproject.toml
lock requirements-uv.txt - <<<'uv>=0.13,<0.14'
build_requirements | lock requirements-build.txt -
