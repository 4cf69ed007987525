# shellcheck shell=bash
# Shared by the scripts beside it: `. "$(dirname "$0")/common.sh"`. Moves to the top of the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure <preset> [cmake argument...]: with ccache, where it is installed.
configure() {
  local preset=$1
  shift
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$preset" "${launcher[@]}" "$@"
}

# build <preset> [target...]
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}
