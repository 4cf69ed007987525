#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz with clang in build-fuzz/ and runs each of them: tools/fuzz.sh [seconds
# each, default 60]. Findings are written to build-fuzz/findings and make the exit code 1.
. "$(dirname "$0")/common.sh"

seconds=${1:-60}
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || die "got \"$seconds\", expected a number of seconds"
command -v clang++ >/dev/null || die "clang is not installed; tools/setup.sh --dev installs it"

configure fuzz
targets=()
for seeds in tests/fuzz/corpus/*/; do
  targets+=("$(basename "$seeds")_fuzz")
done
build fuzz "${targets[@]}"

failed=()
for target in "${targets[@]}"; do
  say "$target, $seconds s"
  mkdir -p "build-fuzz/findings/$target" "build-fuzz/corpus/$target"
  build-fuzz/fuzz/"$target" -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build-fuzz/findings/$target/" "build-fuzz/corpus/$target" \
    "tests/fuzz/corpus/${target%_fuzz}" || failed+=("$target")
done
[ ${#failed[@]} -eq 0 ] || die "findings in: ${failed[*]}; the inputs are in build-fuzz/findings"
say "No finding in ${#targets[@]} targets"
