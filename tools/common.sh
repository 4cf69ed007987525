# shellcheck shell=bash
# Functions that the scripts in this folder share: `. "$(dirname "$0")/common.sh"`. Reading this file also changes the
# working directory to the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure <preset> [cmake argument...]: configures with ccache if it is installed. ccache caches what includes a precompiled header
# only where it is told that macros which change behind it do not matter.
configure() {
  local preset=$1
  shift
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
      "-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache")
  fi
  cmake --preset "$preset" "${launcher[@]}" "$@"
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
has_amd_gpu() { [ -e /dev/kfd ]; }

# gpu_options: prints options that compile GPU code for the GPUs of this machine, or for one fixed architecture if there
# are none. All architectures that a build has by default take three to five times as long.
gpu_options() {
  if has_nvidia_gpu; then echo "-DCMAKE_CUDA_ARCHITECTURES=native"; else echo "-DCMAKE_CUDA_ARCHITECTURES=90"; fi
  if ! has_amd_gpu; then echo "-DRUNTIME_HIP_ARCHITECTURES=gfx90a"; fi
}

# build <preset> [target...]: builds all targets or the named ones.
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

# configure_single: configures build-single/, which is never built: it says how each source is compiled by itself, also where build/
# compiles several together.
configure_single() {
  # shellcheck disable=SC2046  # several options
  configure release -B build-single -DRUNTIME_BUILD_TESTS=ON -DRUNTIME_UNITY=OFF -DRUNTIME_PRECOMPILE=OFF $(gpu_options) >/dev/null
}

# changed_code <commit> <pattern...>: prints the files of these patterns, as git knows them, that differ from the commit in more than
# comments.
changed_code() {
  git diff --numstat --no-renames --diff-filter=d --ignore-matching-lines='^ *//' "$1" -- "${@:2}" | cut -f 3
}

# base_commit: the commit that a change is compared with: where the branch left origin/main; on the main branch itself the
# one before the last.
base_commit() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
  if [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~1 || echo "$base"); fi
  echo "$base"
}
