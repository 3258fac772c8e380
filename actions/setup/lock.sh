#!/usr/bin/env bash
# Renew what install.sh installs: requirements.txt, and requirements-store.txt with the extra "store" as well.
#
# Each holds the toolkit's dependencies and what builds it, all the way down, for every Python and system that it runs
# on, with the hashes of their wheels. What is younger than a week is left for the next time, when others have tried it.
#
# UV  the program that resolves them. Default: uv
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build_requirements() {
  python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'
}

# Writes the file of this name; the arguments after it are more of uv's.
lock() {
  local file=actions/setup/$1
  build_requirements | "${UV:-uv}" pip compile --quiet --no-config --upgrade --universal --python-version 3.10 \
    --generate-hashes --only-binary :all: --exclude-newer '7 days' --no-annotate \
    --custom-compile-command 'bash actions/setup/lock.sh' --output-file "$file" "${@:2}" pyproject.toml -
}

lock requirements.txt
lock requirements-store.txt --extra store --constraints actions/setup/requirements.txt
