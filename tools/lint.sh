#!/usr/bin/env bash
# Runs clang-tidy (rules: .clang-tidy) over the named files, or without names over the .cpp files that differ from the
# branch main, or from the last commit if nothing differs. Needs a configured build/ (tools/quickstart.sh,
# tools/test.sh).
. "$(dirname "$0")/common.sh"

command -v clang-tidy >/dev/null || die "clang-tidy is not installed; tools/setup.sh --dev installs it"
[ -e build/compile_commands.json ] || configure release
if [ $# -gt 0 ]; then
  files=("$@")
else
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1 || echo "$base")
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cpp')
fi
[ ${#files[@]} -gt 0 ] || { echo "no changed .cpp file"; exit 0; }
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build \
  --extra-arg=-Wno-unknown-warning-option
