#!/usr/bin/env bash
# What an action must leave as it was: the caller's packages, environment and checkout. The first argument is a file.
set -euo pipefail
mkdir -p "$(dirname "$1")"
{
  python -c 'from importlib.metadata import distributions
print(*sorted(f"{package.name}=={package.version}" for package in distributions()), sep="\n")'
  env | grep -v -E '^(GITHUB|RUNNER|INPUT)_|^(_|SHLVL)=' | LC_ALL=C sort
  git status --porcelain --ignored
} >"$1"
