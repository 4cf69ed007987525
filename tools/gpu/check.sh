#!/usr/bin/env bash
# Runs everything that needs a GPU, on a machine with a GPU and few packages, and writes a table.
#
#   tools/gpu/check.sh --call a | [--quick] [--only STEP,...] [--output FOLDER] ...   (all: tools/gpu/check.py --help)
#
# Needs bash and python3. The build is RUNTIME_GPU_BUILD if that is set, else the one that tools/gpu/pack.sh has packed
# if it runs here, else one that is made here for this machine's GPU, with the headers of the packed libraries.
. "$(dirname "$0")/../common.sh"

pack=tools/gpu/carried/pack.tar.xz
root=${RUNTIME_GPU_FOLDER:-${HOME:-/tmp}/.cache/runtime-gpu} # the folder into which the pack is unpacked
build_seconds=${RUNTIME_GPU_BUILD_SECONDS:-500}              # time limit of a build made here; the next call continues it
RUNTIME_GPU_BEGIN=${RUNTIME_GPU_BEGIN:-$(date +%s)}          # check.py counts the time of the call from here
export RUNTIME_GPU_BEGIN

# Unpacks the pack with tar and xz, or with Python if one of them is missing; once for each pack.
unpack() {
  local stamp
  stamp=$(stat -c '%s %Y' $pack)
  if [ -e "$root/stamp" ] && [ "$(cat "$root/stamp")" = "$stamp" ]; then return 0; fi
  rm -rf "${root:?}"/{build,lib,lib-compiler,usr,commit,stamp}
  mkdir -p "$root"
  if command -v xz >/dev/null && command -v tar >/dev/null; then
    tar --no-same-owner -xJf $pack -C "$root" || die "$pack could not be unpacked by tar and xz into $root; see above"
  else
    python3 - $pack "$root" <<'PYTHON' || die "$pack could not be unpacked by Python into $root: it needs the module lzma, or tar and xz"
import sys, tarfile
with tarfile.open(sys.argv[1], "r:xz") as pack:
    trusted = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    pack.extractall(sys.argv[2], **trusted)
PYTHON
  fi
  echo "$stamp" >"$root/stamp"
}

# run_in <build> <argument...>: runs the program of the build with the libraries that were found.
run_in() {
  local program=$1/bin/runtime
  shift
  LD_LIBRARY_PATH=$RUNTIME_GPU_LIBRARIES "$program" "$@"
}

# runs <build>: whether the build runs here, if necessary with the packed libraries of the compiler.
runs() {
  run_in "$1" --version >/dev/null 2>&1 && return
  local without=$RUNTIME_GPU_LIBRARIES
  RUNTIME_GPU_LIBRARIES=$root/lib-compiler:$without
  if run_in "$1" --version >/dev/null 2>&1; then
    echo "note: this machine's C++ library is older than the packed one, which is used"
    return
  fi
  RUNTIME_GPU_LIBRARIES=$without
  echo "note: $1/bin/runtime does not run here: $(run_in "$1" --version 2>&1 | head -3)"
  return 1
}

# sees_gpu <build>: whether the build can use the GPU. A build for a newer driver lists the device as unusable.
sees_gpu() {
  nvidia-smi >/dev/null 2>&1 || return 0
  local devices
  devices=$(run_in "$1" devices 2>&1) || true
  grep -q '^cuda:0 *usable' <<<"$devices" && return
  echo "note: the device cannot be used by $1: $devices"
  return 1
}

build_here() {
  command -v cmake >/dev/null || { echo "note: cmake is not installed" && return 1; }
  local generator=() target
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  cmake -S . -B "$root/own-build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DRUNTIME_TEST_OPTIONS=-O1 \
    -DCMAKE_CUDA_ARCHITECTURES="${RUNTIME_GPU_ARCHITECTURES:-90}" -DCMAKE_PREFIX_PATH="$root/usr" >&2 || return 1
  timeout "$build_seconds" cmake --build "$root/own-build" --parallel "$(nproc)" --target runtime runtime-bench runtime-verify backend_reference \
    backend_cuda backends_cuda_conformance_test >&2 || return 1
  # Optional targets.
  for target in backend_cpu gpu_limits collectives_gloo collectives_nccl collectives_nccl_gpu_test differential_operations; do
    cmake --build "$root/own-build" --parallel "$(nproc)" --target $target >&2 || echo "note: no $target" >&2
  done
}

command -v python3 >/dev/null || die "python3 is not installed; the steps are in Python"
RUNTIME_GPU_LIBRARIES=$(python3 tools/gpu/libraries.py "$root/lib")
export RUNTIME_GPU_LIBRARIES RUNTIME_GPU_BUILD_KIND
build=${RUNTIME_GPU_BUILD:-}
carried=
if [ -n "$build" ]; then
  RUNTIME_GPU_BUILD_KIND="given: RUNTIME_GPU_BUILD"
else
  if [ -e $pack ]; then
    unpack
    RUNTIME_GPU_BUILD_KIND="carried: $(tr '\n' ' ' <"$root/commit")"
    if runs "$root/build"; then carried=$root/build; fi
    if [ -n "$carried" ] && sees_gpu "$carried"; then build=$carried; fi
  else
    echo "note: $pack is not there; tools/gpu/pack.sh makes it on a machine with the packages of tools/setup.sh"
  fi
  if [ -z "$build" ]; then
    say "Building here, for at most $build_seconds seconds"
    if build_here; then
      build=$root/own-build
      RUNTIME_GPU_BUILD_KIND="made on this machine"
    elif [ -n "$carried" ]; then
      build=$carried # its own report says why it cannot use the device
    else
      die "no build: what was carried does not run here, and none could be made within $build_seconds seconds; see above." \
        "The next call goes on with it"
    fi
  fi
fi
exec python3 tools/gpu/check.py --build "$build" "$@"
