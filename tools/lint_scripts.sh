#!/usr/bin/env bash
# Runs shellcheck over the shell scripts that git tracks, and pyflakes over the Python programs. A linter that is not installed is
# skipped.
. "$(dirname "$0")/common.sh"

# lint <program> <files...>: runs the linter, which prints what it finds.
lint() {
  local program=$1
  shift
  if ! command -v "$program" >/dev/null; then
    echo "skipped: $program of $# files (not found; tools/setup.sh --lint installs it)"
    return
  fi
  "$program" "$@" || status=1
}

mapfile -t shell < <(git ls-files '*.sh' .ci/run)
mapfile -t python < <(git ls-files '*.py')
status=0
# Each script is read with the file that it sources.
export SHELLCHECK_OPTS="--external-sources --source-path=SCRIPTDIR"
lint shellcheck "${shell[@]}"
lint pyflakes3 "${python[@]}"
exit $status
