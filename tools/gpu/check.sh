#!/usr/bin/env bash
# On a machine with a GPU and little else (nvcc, CMake, python3 with PyTorch): everything that needs the GPU, and a table.
#
#   tools/gpu/check.sh [--quick] [--only STEP,...] [--output FOLDER] ...   (tools/gpu/check.py --help has them all)
#
# The build: RUNTIME_GPU_BUILD if it is set, else what tools/gpu/pack.sh has packed if that runs here, else one made here
# with the packed libraries' headers, for this machine's GPU.
. "$(dirname "$0")/../common.sh"

pack=tools/gpu/carried/pack.tar.xz
root=/tmp/runtime-gpu # as in pack.sh: programs know files beside them by their whole path

# Folders of CUDA's libraries: the toolkit's, and those of PyTorch's packages.
cuda_libraries() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  printf '%s:' "$(dirname "$(dirname "$nvcc")")/lib64"
  python3 -c 'import glob, nvidia
for path in nvidia.__path__: print(":".join(glob.glob(path + "/*/lib")))' 2>/dev/null || true
}

runs() { LD_LIBRARY_PATH=$RUNTIME_GPU_LIBRARIES "$1/bin/runtime" --version >/dev/null 2>&1; }

# A build for a newer driver lists the device, but as unusable.
sees_gpu() {
  ! nvidia-smi >/dev/null 2>&1 ||
    LD_LIBRARY_PATH=$RUNTIME_GPU_LIBRARIES "$1/bin/runtime" devices 2>/dev/null | grep -q '^cuda:0 *usable'
}

build_here() {
  local generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  cmake -S . -B $root/own-build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DRUNTIME_TEST_OPTIONS=-O1 \
    -DCMAKE_CUDA_ARCHITECTURES="${RUNTIME_GPU_ARCHITECTURES:-90}" -DCMAKE_PREFIX_PATH=$root/usr >&2 &&
    cmake --build $root/own-build --parallel "$(nproc)" --target runtime backend_reference backend_cuda \
      backends_cuda_conformance_test >&2 || return 1
  # What else there is to be had here.
  for target in backend_cpu collectives_gloo collectives_nccl; do
    cmake --build $root/own-build --parallel "$(nproc)" --target $target >&2 || echo "note: no $target" >&2
  done
}

RUNTIME_GPU_LIBRARIES=$root/lib:$(cuda_libraries)
export RUNTIME_GPU_LIBRARIES RUNTIME_GPU_BUILD_KIND
build=${RUNTIME_GPU_BUILD:-}
if [ -n "$build" ]; then
  RUNTIME_GPU_BUILD_KIND="given: RUNTIME_GPU_BUILD"
else
  if [ -e $pack ]; then
    mkdir -p $root && tar -xJf $pack -C $root
    if runs $root/build && sees_gpu $root/build; then
      build=$root/build
      RUNTIME_GPU_BUILD_KIND="carried: $(cat $root/commit)"
    fi
  else
    echo "note: $pack is not there; tools/gpu/pack.sh makes it on a machine with the packages of tools/setup.sh"
  fi
  if [ -z "$build" ]; then
    say "Building here"
    build_here || die "no build: what was carried does not run here, and it could not be built; see above"
    build=$root/own-build
    RUNTIME_GPU_BUILD_KIND="made on this machine"
  fi
fi
exec python3 tools/gpu/check.py --build "$build" "$@"
