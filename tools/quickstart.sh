#!/usr/bin/env bash
# Takes a fresh machine to a trained LeNet: packages, Release build, ten epochs of Fashion-MNIST on the processor.
# Arguments are passed to `runtime train`, for example --set training.epochs=1.
. "$(dirname "$0")/common.sh"

tools/setup.sh --minimal
say "Building into build/"
# The tests are left out; tools/test.sh builds them. So are the plugins for GPUs that this machine does not have: their
# kernels take longer than all the rest.
plugins="cpu;gloo;mpi"
if has_nvidia_gpu; then
  plugins+=";cuda;nccl"
else
  echo "skipped: the plugins cuda and nccl, because nvidia-smi finds no GPU; cmake --preset release -DRUNTIME_PLUGINS=\"$plugins;cuda;nccl\" adds them"
fi
if has_amd_gpu; then plugins+=";rocm"; else echo "skipped: the plugin rocm, because there is no /dev/kfd"; fi
# shellcheck disable=SC2046  # several options
configure release -DRUNTIME_BUILD_TESTS=OFF -DRUNTIME_UNITY=ON -DRUNTIME_PLUGINS="$plugins" $(gpu_options)
build release
say "build/bin/runtime train configs/fashion_mnist_lenet.toml $*"
build/bin/runtime train configs/fashion_mnist_lenet.toml "$@" </dev/null
