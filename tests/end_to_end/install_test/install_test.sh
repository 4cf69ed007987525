#!/usr/bin/env bash
# Installs everything into a temporary folder and uses only what is there: the program finds its plugins, presets and data;
# documents and configurations hold (documents.py);
# the example plugin in C, built from the installed headers, is listed and trains; the C++ example of runtime/tensor/README.md links and runs.
# Arguments: <cmake> <source folder> <build folder> <generator> <C compiler> <C++ compiler> [<sanitizers>]
set -euo pipefail
cmake=$1 source=$2 build=$3 generator=$4 c_compiler=$5 cxx_compiler=$6 sanitize=${7:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache
unset RUNTIME_PLUGIN_PATH RUNTIME_DATA_PATH
prefix=$work/prefix
configs=$prefix/share/runtime/configs
flags=${sanitize:+-fsanitize=$sanitize}

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# expect <what> <text>: fails unless the text is part of the last command's output, $output.
expect() { grep -qF -- "$2" <<<"$output" || fail "$1: expected \"$2\" in: $output"; }

runtime() { output=$("$prefix/bin/runtime" "$@" 2>&1 </dev/null) || fail "runtime $*: exit $?: $output"; }

# build_outside <folder> <build folder>: builds a project against the installation, as a user would.
build_outside() {
  { "$cmake" -S "$1" -B "$2" -G "$generator" -DCMAKE_C_COMPILER="$c_compiler" -DCMAKE_CXX_COMPILER="$cxx_compiler" \
    -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_PREFIX_PATH="$prefix" && "$cmake" --build "$2"; } >"$work/log" 2>&1 ||
    fail "building $1: $(cat "$work/log")"
}

# fenced <language>: prints the first code block of that language in runtime/tensor/README.md.
fenced() { awk -v fence='```'"$1" '$0 == fence {on = 1; next} on && /^```/ {exit} on' "$source/runtime/tensor/README.md"; }

"$cmake" --install "$build" --prefix "$prefix" >"$work/log" || fail "install: $(cat "$work/log")"
for file in bin/runtime bin/runtime-bench bin/runtime-diagnose bin/runtime-launch bin/runtime-report bin/runtime-sweep bin/runtime-tune bin/runtime-verify libexec/runtime/plugin_probe lib/runtime/plugins/libbackend_reference.so include/rt/plugin.h include/rt/sdk/error.h \
  include/runtime/tensor/tensor.h lib/cmake/runtime/runtimeConfig.cmake share/runtime/configs/presets/lenet.toml \
  share/runtime/pytorch/record_step.py share/bash-completion/completions/runtime; do
  [ -f "$prefix/$file" ] || fail "$file is not installed"
done
[ ! -e "$prefix/lib/runtime/plugins/libsimulated.so" ] || fail "a plugin of the tests is installed"

# Everything that was installed searches libraries in fixed folders only, none of which belongs to this build.
while read -r file; do
  search=$({ readelf -d "$file" 2>/dev/null || true; } | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]$/\2/p')
  [ -n "$search" ] || continue
  while read -r -d : part; do
    case $part in
      *..* | "$build"* | "$source"*) fail "$file looks for libraries in \"$part\"" ;;
      /* | \$ORIGIN | \$ORIGIN/*) ;;
      *) fail "$file looks for libraries in \"$part\", which the working folder decides" ;;
    esac
  done <<<"$search:"
done < <(find "$prefix" -type f)

cd "$work"
runtime devices
expect "devices" "reference:0"
grep -q example:0 <<<"$output" && fail "example:0 is listed before it was built: $output"
runtime train "$configs/bench_lenet.toml" --max-steps 2
expect "training" "done: 2 steps"
runtime train "$configs/csv_regression.toml" --set device.backend=reference --max-steps 2
expect "training on the installed table" "done: 2 steps"

python3 -B "$source/tests/end_to_end/install_test/documents.py" "$prefix" "$source" "$build" || fail "documents, see above"

cp -r "$source/plugins/examples/minimal_device_c" "$work/plugin"
build_outside "$work/plugin" "$work/plugin/build"
export RUNTIME_PLUGIN_PATH=$work/plugin/build/lib/runtime/plugins
runtime devices
expect "devices" "example:0"
runtime train "$configs/bench_mlp.toml" --set device.backend=example --set training.global_batch_size=8 --max-steps 3
expect "training on example" "done: 3 steps"

mkdir "$work/program"
fenced cpp >"$work/program/main.cpp"
fenced cmake >"$work/program/CMakeLists.txt"
build_outside "$work/program" "$work/program/build"
unset RUNTIME_PLUGIN_PATH
output=$("$work/program/build/my_program" 2>&1) || fail "the program of runtime/tensor/README.md: exit $?: $output"
expect "the program of runtime/tensor/README.md" "2 5 10 17"
echo "installed, used and extended"
