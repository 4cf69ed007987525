#!/usr/bin/env bash
# From a fresh machine to a trained LeNet: packages, Release build, ten epochs of Fashion-MNIST on the processor.
# Arguments go to `runtime train`, for example --set training.epochs=1.
. "$(dirname "$0")/common.sh"

tools/setup.sh --minimal
say "Building into build/"
# tools/test.sh builds the tests as well.
configure release -DRUNTIME_BUILD_TESTS=OFF
build release
say "build/bin/runtime train configs/fashion_mnist_lenet.toml $*"
build/bin/runtime train configs/fashion_mnist_lenet.toml "$@" </dev/null
