#!/usr/bin/env bash
# Runs clang-tidy (rules: .clang-tidy) over the named .cpp files, or without names over those that differ from a commit.
# Files that the build does not compile here are left out.
#
#   tools/lint.sh [--base <commit>] [--most <number>] [file...]
#
# --base   the commit to compare with: by default where the branch left origin/main, or else the commit before the last one
# --most   how many files to check at most, because one takes about 10 s; by default all
. "$(dirname "$0")/common.sh"

base=
most=
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --base)
      base=${2:-}
      git rev-parse -q --verify "$base^{commit}" >/dev/null || die "got --base \"$base\", expected a commit"
      ;;
    --most)
      most=${2:-}
      [[ "$most" =~ ^[1-9][0-9]*$ ]] || die "got --most \"$most\", expected a number of files"
      ;;
    *) die "unknown argument $1; expected --base, --most or a file" ;;
  esac
  shift 2
done

command -v clang-tidy >/dev/null || die "clang-tidy is not installed; tools/setup.sh --dev installs it"
configure_single

# changed_files: the .cpp files that differ from $base in more than comments.
changed_files() { changed_code "${base:-$(base_commit)}" '*.cpp'; }

if [ $# -gt 0 ]; then
  candidates=("$@")
else
  mapfile -t candidates < <(changed_files)
fi
files=()
for file in "${candidates[@]}"; do
  if grep -qF "\"$(realpath "$file")\"" build-single/compile_commands.json; then files+=("$file"); else echo "not compiled here: $file"; fi
done
[ ${#files[@]} -gt 0 ] || { echo "no .cpp file to check"; exit 0; }
if [ -n "$most" ] && [ ${#files[@]} -gt "$most" ]; then
  echo "checked are the first $most of ${#files[@]} files; tools/lint.sh without --most checks all of them"
  files=("${files[@]:0:most}")
fi

printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build-single \
  --extra-arg=-Wno-unknown-warning-option
say "clang-tidy finds nothing in ${#files[@]} files"
