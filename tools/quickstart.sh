#!/usr/bin/env bash
# Takes a fresh machine to a trained LeNet: packages, Release build, ten epochs of Fashion-MNIST on the processor.
# Arguments are passed to `runtime train`, for example --set training.epochs=1.
. "$(dirname "$0")/common.sh"

tools/setup.sh --minimal
say "Building into build/"
# The tests are left out; tools/test.sh builds them.
# shellcheck disable=SC2046  # several options
configure release -DRUNTIME_BUILD_TESTS=OFF $(gpu_options)
build release
say "build/bin/runtime train configs/fashion_mnist_lenet.toml $*"
build/bin/runtime train configs/fashion_mnist_lenet.toml "$@" </dev/null
