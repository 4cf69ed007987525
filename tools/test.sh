#!/usr/bin/env bash
# Builds everything and runs the tests. A stage that fails does not stop the ones after it. The last lines name what
# failed and count the tests of all stages that ran.
#
#   tools/test.sh               Release build (build/) and its tests without the long ones (labels that end in _long)
#   tools/test.sh --quick       Release build and the unit tests of single modules (label unit)
#   tools/test.sh --sanitizers  unit tests with AddressSanitizer and UndefinedBehaviorSanitizer in a Debug build
#                               (build-debug/), ranks as threads with ThreadSanitizer (build-tsan/)
#   tools/test.sh --rest        what the first of these commands leaves out: the long tests of the Release build, then the
#                               sanitizers
#   tools/test.sh --all         everything: the Release build with all of its tests, then the sanitizers
#
# Environment: with RUNTIME_TESTS_UNTIL=<seconds since 1970> none of its parts (the tests of the Release build, each
# sanitizer) begins later than that, and the last lines name those that were left out. The first part is then another one
# with each commit, so that each has its turn also where there is never time for all.
. "$(dirname "$0")/common.sh"

release_tests=short
sanitizers=
case "${1:-}" in
  --quick) release_tests=unit ;;
  --sanitizers) release_tests='' sanitizers=1 ;;
  --rest) release_tests=long sanitizers=1 ;;
  --all) release_tests=all sanitizers=1 ;;
  "") ;;
  *) die "unknown argument $1; expected --quick, --sanitizers, --rest, --all or nothing" ;;
esac
[ $# -le 1 ] || die "unknown argument $2; expected one argument at most"

# Tests are compiled with -O0 and precompiled headers, which together halve the time of their compilation. The libraries
# keep the build's flags; their sources are compiled together, which halves their time (tools/includes.sh finds includes
# that are missing). Where there is no GPU for them, the kernels of the plugins cuda and rocm, which take minutes, are
# compiled for the long tests only, but for one file each. Then RUNTIME_GPU_KERNELS in the environment can say less:
# checked (those of rocm are read, not compiled) or canary (one file each is compiled).
build_release() {
  local kernels=${RUNTIME_GPU_KERNELS:-compiled} cuda=compiled rocm=compiled
  if [[ "$release_tests" == short || "$release_tests" == unit ]]; then kernels=canary; fi
  if ! has_amd_gpu; then rocm=$kernels; fi
  if ! has_nvidia_gpu && [ "$kernels" = canary ]; then cuda=canary; fi
  # shellcheck disable=SC2046  # several options
  configure release -DRUNTIME_BUILD_TESTS=ON -DRUNTIME_TEST_OPTIONS=-O0 -DRUNTIME_PRECOMPILE=TESTS -DRUNTIME_UNITY=ON \
    -DRUNTIME_PLUGINS="cpu;cuda;rocm;gloo;mpi;nccl" -DRUNTIME_CUDA_KERNELS="$cuda" -DRUNTIME_ROCM_KERNELS="$rocm" \
    $(gpu_options) && build release
}

# The sanitizer builds precompile the headers of the libraries too, which saves a sixth of their time. Line numbers are
# enough for reports; full debug information costs a tenth of the build. Undefined behaviour is checked in the
# libraries only: checking the tests too costs a third of their compilation.
build_debug() {
  configure debug -DRUNTIME_PRECOMPILE=ON -DRUNTIME_UNITY=ON -DRUNTIME_TEST_OPTIONS=-fno-sanitize=undefined -DCMAKE_C_FLAGS_DEBUG=-g1 \
    -DCMAKE_CXX_FLAGS_DEBUG=-g1 && build debug unit_tests
}

# Ranks as threads, and what has threads of its own: the store, the control plane, collectives inside a machine.
tsan_tests=(faults_threads_test local_communicator_test watchdog_test rendezvous_test job_board_test messenger_test
  shared_memory_test collectives_mesh_test system_test)

build_tsan() {
  configure tsan -DRUNTIME_PRECOMPILE=ON -DRUNTIME_UNITY=ON || return
  # Only where the headers of CUDA and NCCL are installed, from which the double of NCCL is made.
  local known
  known=$(ninja -C build-tsan -t targets all)
  if grep -q '^nccl_abort_test: phony' <<<"$known"; then tsan_tests+=(nccl_abort_test); fi
  build tsan "${tsan_tests[@]}"
}

passed=0 failed=0 skipped=0
failed_stages=() failed_tests=() passed_alone=() left_out=()

# stage <name> <command...>: prints the name and runs the command. A failure is recorded and returned.
stage() {
  say "$1"
  "${@:2}" && return
  failed_stages+=("$1")
  return 1
}

# count <report> <attribute>: a number of a JUnit report of ctest.
count() { sed -n "s/^[[:space:]]*$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -1; }

# names_of_failed <report>: prints the names of the tests that failed according to a JUnit report of ctest, one a line.
names_of_failed() { sed -n 's/^.*<testcase name="\([^"]*\)".* status="fail".*/\1/p' "$1"; }

# regex_of <tests...>: a regular expression of ctest that matches exactly these names. (ctest --rerun-failed goes by number, and
# the numbers depend on the arguments of the run.)
regex_of() {
  local names
  # shellcheck disable=SC2016  # the dollar is part of a set of characters
  names=$(printf '%s\n' "$@" | sed -e 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' -e 's/[][\.*+?^$()|]/\\&/g' | paste -sd '|')
  printf '^(%s)$' "$names"
}

# output_of <build folder> <test>: the last lines that the test wrote when ctest last ran it.
output_of() {
  awk -v name="\"$2\"" 'index($0, name " start time: ") == 1 { inside = 1; next }
    inside && index($0, name " end time: ") == 1 { exit }
    inside && !/^(Output:|-+|<end of output>|Test time = .*|)$/' "$1/Testing/Temporary/LastTest.log" | tail -8 | cut -c 1-400
}

# A test with deadlines can fail because other tests, or other users of the machine, took the processor. So a few tests
# that fail are run once more, one at a time; those that pass then count as passed, and the last lines of the output
# name them.
most_run_again=5

# Many tests wait for ranks or deadlines most of the time. With one test for each processor the processors would be idle
# for half of the time, so three tests run for every two processors.
tests_at_once=$((($(nproc) * 3 + 1) / 2))

# run_tests <build folder> <arguments of ctest...>: runs the tests, adds their results to the three counts and the names of
# those that failed, or failed at first, to the lists.
run_tests() {
  local folder=$1 status=0 report
  local -a first=()
  report=$(mktemp)
  ctest --test-dir "$folder" --parallel "$tests_at_once" --output-on-failure --no-tests=error --output-junit "$report" \
    "${@:2}" </dev/null || status=$?
  local tests failures not_run
  tests=$(count "$report" tests) failures=$(count "$report" failures)
  not_run=$(($(count "$report" disabled) + $(count "$report" skipped)))
  mapfile -t first < <(names_of_failed "$report")
  if [ "${#first[@]}" -gt 0 ] && [ "${#first[@]}" -le "$most_run_again" ]; then
    say "Again, one at a time: ${first[*]}"
    ctest --test-dir "$folder" --tests-regex "$(regex_of "${first[@]}")" --output-on-failure --no-tests=error \
      --output-junit "$report" </dev/null && status=0
    failures=$(count "$report" failures)
  fi
  local -a last=()
  mapfile -t last < <(names_of_failed "$report")
  rm -f "$report"
  for name in "${last[@]}"; do
    failed_tests+=("$name"$'\n'"$(output_of "$folder" "$name" | sed 's/^/  | /')")
  done
  for name in "${first[@]}"; do
    [[ " ${last[*]} " == *" $name "* ]] || passed_alone+=("$name")
  done
  failed=$((failed + ${failures:-0}))
  skipped=$((skipped + not_run))
  passed=$((passed + ${tests:-0} - ${failures:-0} - not_run))
  return $status
}

# optional_part <name> <what it needs> <command...>: reports the part as found if the command succeeds, else as skipped.
optional_part() {
  local name=$1 wanted=$2
  shift 2
  if "$@" >/dev/null 2>&1; then echo "found:   $name"; else echo "skipped: $name ($wanted not found)"; fi
}

list_optional_parts() {
  local plugins=build/lib/runtime/plugins
  optional_part "plugin cuda" "an NVIDIA GPU, CUDA Toolkit, or tools/test.sh --rest," test -e $plugins/libbackend_cuda.so
  optional_part "plugin nccl" "NCCL, CUDA Toolkit" test -e $plugins/libcollectives_nccl.so
  optional_part "plugin rocm" "an AMD GPU, hipcc, libamdhip64-dev, or tools/test.sh --rest," test -e $plugins/libbackend_rocm.so
  optional_part "plugin gloo" "libgloo-dev" test -e $plugins/libcollectives_gloo.so
  optional_part "plugin mpi" "libopenmpi-dev or libmpich-dev" test -e $plugins/libcollectives_mpi.so
  optional_part "conformance of mpi with MPICH" "libmpich-dev" command -v mpicc.mpich
  optional_part "rendezvous by Redis" "libhiredis-dev, redis-server" command -v redis-server
  optional_part "rendezvous by PMIx" "libpmix-dev" sh -c "ls /usr/lib/*/pmix2/include/pmix.h || ls /usr/include/pmix.h"
  optional_part "numbers over HTTP" "libmicrohttpd-dev" test -e /usr/include/microhttpd.h
  optional_part "image folders" "libjpeg-dev, libpng-dev" test -e build/tests/images_test
  optional_part "parity with PyTorch" "python3-torch" /usr/bin/python3 -c 'import torch, numpy'
  optional_part "metrics against scikit-learn" "python3-sklearn" /usr/bin/python3 -c 'import sklearn, numpy'
  optional_part "completion in zsh and fish" "zsh, fish" sh -c "command -v zsh && command -v fish"
  optional_part "plugin cpu" "oneDNN" test -e $plugins/libbackend_cpu.so
  optional_part "Fashion-MNIST" "package dataset-fashion-mnist" test -d /usr/share/datasets/fashion-mnist
  optional_part "fuzzing with tools/fuzz.sh" "clang" command -v clang++
}

test_release() {
  case "$release_tests" in
    unit) run_tests build --label-regex '^unit$' ;;
    short) run_tests build --label-exclude '_long$' ;;
    long) run_tests build --label-regex '_long$' ;;
    all) run_tests build ;;
  esac
}

# LeakSanitizer of gcc 12 notes where each thread has its thread-local variables of shared libraries, reads the wrong
# address when a thread has an OpenMP team, and crashes at the end of the test; without the option it takes no notes.
test_debug() {
  ASAN_OPTIONS=intercept_tls_get_addr=0 run_tests build-debug --label-regex '^unit$'
}

test_tsan() {
  local names
  names=$(IFS='|' && echo "${tsan_tests[*]}")
  run_tests build-tsan --tests-regex "^($names)\."
}

tools/setup.sh

part_release() {
  stage "Release build" build_release || return
  say "Optional parts"
  list_optional_parts
  stage "Release: $release_tests tests" test_release
}
part_address() {
  stage "Debug build with AddressSanitizer and UndefinedBehaviorSanitizer" build_debug && stage "Debug: unit tests" test_debug
}
part_thread() {
  stage "Build with ThreadSanitizer" build_tsan && stage "ThreadSanitizer: ranks as threads" test_tsan
}

parts=()
[ -z "$release_tests" ] || parts+=(release)
[ -z "$sanitizers" ] || parts+=(address thread)
turn=0
if [ -n "${RUNTIME_TESTS_UNTIL:-}" ]; then turn=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % ${#parts[@]})); fi
for ((i = 0; i < ${#parts[@]}; ++i)); do
  name=${parts[$(((turn + i) % ${#parts[@]}))]}
  if [ "$(date +%s)" -lt "${RUNTIME_TESTS_UNTIL:-9999999999}" ]; then "part_$name" || true; else left_out+=("$name"); fi
done

say "Result"
for name in "${passed_alone[@]}"; do echo "passed only when it was run alone: $name"; done
for name in "${left_out[@]}"; do echo "left out, because its time was over: part $name"; done
for name in "${failed_stages[@]}" "${failed_tests[@]}"; do echo "failed: $name" >&2; done
echo "tests: $passed passed, $failed failed, $skipped skipped"
[ ${#failed_stages[@]} = 0 ]
