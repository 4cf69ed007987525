#!/usr/bin/env bash
# Builds the plugin cpu against oneDNN 3 beside that of the distribution, which may be 2.6, and runs its conformance
# tests with it (build-onednn3/). oneDNN 3 comes as wheels of the Python registry.
#
#   tools/try_onednn3.sh           the wheels are downloaded, once
#   tools/try_onednn3.sh FOLDER    FOLDER/include and FOLDER/lib have oneDNN 3 already
. "$(dirname "$0")/common.sh"

tests=(backends_cpu_conformance_test backends_cpu_convolution_test backends_cpu_isa_test backends_cpu_test)
wheels=(onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0)

download() {
  local folder=$1
  rm -rf "$folder" && mkdir -p "$folder"
  python3 -m pip download --quiet --no-deps --dest "$folder" "${wheels[@]}" || return
  for wheel in "$folder"/*.whl; do
    python3 -m zipfile --extract "$wheel" "$folder" || return
  done
  mkdir "$folder/include" "$folder/lib"
  cp -r "$folder"/*.data/data/include/. "$folder/include"
  cp -r "$folder"/*.data/data/lib/. "$folder/lib"
}

[ $# -le 1 ] || die "unknown argument $2; expected one folder at most"
folder=${1:-build-onednn3/onednn}
if [ ! -e "$folder/include/dnnl.hpp" ]; then
  [ $# -eq 0 ] || die "$folder/include/dnnl.hpp is not there; expected a folder with oneDNN 3"
  if ! python3 -m pip --version >/dev/null 2>&1 || ! download "$folder"; then
    rm -rf "$folder"
    echo "skipped: the plugin cpu with oneDNN 3 (pip could not download ${wheels[*]})"
    exit 0
  fi
fi
folder=$(realpath "$folder")

say "the plugin cpu with oneDNN 3"
configure release -B build-onednn3 -DRUNTIME_PLUGINS=cpu -DRUNTIME_BUILD_TESTS=ON -DRUNTIME_TEST_OPTIONS=-O0 -DRUNTIME_PRECOMPILE=ON \
  -DRUNTIME_UNITY=ON -DDNNL_INCLUDE_DIR="$folder/include" -DDNNL_LIBRARY="$folder/lib/libdnnl.so"
cmake --build build-onednn3 --parallel "$(nproc)" --target "${tests[@]}"
# This oneDNN has threads of its own, because it calls functions of OpenMP that the plugin's team does not have.
export GTEST_FILTER=-CpuThreads.AsManyAsAskedFor
for test in "${tests[@]}"; do
  say "$test"
  OMP_WAIT_POLICY=PASSIVE LD_LIBRARY_PATH=$folder/lib "build-onednn3/tests/$test" --gtest_brief=1 || die "$test failed with oneDNN 3"
done
