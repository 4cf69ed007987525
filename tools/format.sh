#!/usr/bin/env bash
# Runs clang-format over the C and C++ files that git tracks. --check changes nothing and fails if something would
# change.
. "$(dirname "$0")/common.sh"

command -v clang-format >/dev/null || die "clang-format is not installed; tools/setup.sh --dev installs it"
case "${1:-}" in
  --check) arguments=(--dry-run --Werror) ;;
  "") arguments=(-i) ;;
  *) die "unknown argument $1; expected --check or nothing" ;;
esac
git ls-files -z '*.c' '*.h' '*.cpp' '*.cu' | xargs -0 clang-format --style=file "${arguments[@]}"
