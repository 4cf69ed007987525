#!/usr/bin/env bash
# Builds everything and runs all tests: the unit tests with AddressSanitizer and UndefinedBehaviorSanitizer in a Debug
# build (build-debug/), ranks as threads with ThreadSanitizer (build-tsan/), then every test in a Release build (build/).
#
#   tools/test.sh            all of it
#   tools/test.sh --quick    without the sanitizers
. "$(dirname "$0")/common.sh"

quick=
case "${1:-}" in
  --quick) quick=1 ;;
  "") ;;
  *) die "unknown argument $1; expected --quick or nothing" ;;
esac

tools/setup.sh

run_tests() { ctest --test-dir "$1" --parallel "$(nproc)" --output-on-failure --no-tests=error "${@:2}" </dev/null; }

# optional_part <name> <what was looked for>, found when the command in the rest succeeds.
optional_part() {
  local name=$1 wanted=$2
  shift 2
  if "$@" >/dev/null 2>&1; then echo "found:   $name"; else echo "skipped: $name ($wanted not found)"; fi
}

# The sanitizers' builds precompile the standard headers, for a sixth of their time; the Release build sees missing
# includes. ccache would keep nothing of what includes a precompiled header.
precompile=-DRUNTIME_PRECOMPILE=ON
if command -v ccache >/dev/null; then precompile=; fi

say "Release build"
configure release -DRUNTIME_BUILD_TESTS=ON ${CI:+-DRUNTIME_TEST_OPTIONS=-O1} ${CI:+-DCMAKE_CUDA_ARCHITECTURES=90 -DRUNTIME_HIP_ARCHITECTURES=gfx90a}
build release

failed=0
if [ -z "$quick" ]; then
  say "Debug build with sanitizers: unit tests"
  # Line numbers are enough for reports; whole debug information costs a tenth of the build. The undefined behaviour that
  # is looked for is that of the libraries: to look in the tests too costs a third of their compilation.
  configure debug $precompile ${CI:+-DRUNTIME_TEST_OPTIONS=-fno-sanitize=undefined -DCMAKE_C_FLAGS_DEBUG=-g1 -DCMAKE_CXX_FLAGS_DEBUG=-g1}
  build debug unit_tests
  # Whole models on every backend take minutes unoptimised: Release only. LeakSanitizer of gcc 12 itself faults at the end
  # of the tests in which threads with an OpenMP team have ended, or are about to: those run without it.
  no_leak_check='CpuThreads\.|SplitBatchNorm\.|RecomputeTest\.'
  run_tests build-debug --label-regex '^unit$' --exclude-regex "train_test\.Backends\.|$no_leak_check" || failed=1
  ASAN_OPTIONS=detect_leaks=0 run_tests build-debug --tests-regex "$no_leak_check" --exclude-regex 'RecomputeTest\.DeepMlp' || failed=1

  say "Build with ThreadSanitizer: ranks as threads"
  configure tsan $precompile -DRUNTIME_PLUGINS= ${CI:+-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1\ -g1}
  build tsan faults_threads_test local_communicator_test watchdog_test
  run_tests build-tsan --tests-regex '^(faults_threads_test|local_communicator_test|watchdog_test)\.' || failed=1
fi

say "Optional parts"
plugins=build/lib/runtime/plugins
optional_part "plugin cuda" "CUDA Toolkit" test -e $plugins/libbackend_cuda.so
optional_part "plugin nccl" "NCCL, CUDA Toolkit" test -e $plugins/libcollectives_nccl.so
optional_part "plugin rocm" "hipcc, libamdhip64-dev" test -e $plugins/libbackend_rocm.so
optional_part "plugin gloo" "libgloo-dev" test -e $plugins/libcollectives_gloo.so
optional_part "plugin mpi" "libopenmpi-dev or libmpich-dev" test -e $plugins/libcollectives_mpi.so
optional_part "conformance of mpi with MPICH" "libmpich-dev" command -v mpicc.mpich
optional_part "rendezvous by Redis" "libhiredis-dev, redis-server" command -v redis-server
optional_part "rendezvous by PMIx" "libpmix-dev" sh -c "ls /usr/lib/*/pmix2/include/pmix.h || ls /usr/include/pmix.h"
optional_part "image folders" "libjpeg-dev, libpng-dev" test -e build/tests/images_test
optional_part "parity with PyTorch" "python3-torch" python3 -c 'import torch, numpy'
optional_part "plugin cpu" "oneDNN" test -e $plugins/libbackend_cpu.so
optional_part "Fashion-MNIST" "package dataset-fashion-mnist" test -d /usr/share/datasets/fashion-mnist
optional_part "fuzzing with tools/fuzz.sh" "clang" command -v clang++

say "Release: all tests"
run_tests build || failed=1
[ $failed = 0 ] || echo "error: tests failed; see above" >&2
exit $failed
