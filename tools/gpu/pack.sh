#!/usr/bin/env bash
# Prepares what tools/gpu/check.sh needs on a machine without packages: a Release build with the plugin cuda, the shared
# libraries that it links, and headers and libraries to build there instead. One file: tools/gpu/carried/pack.tar.xz.
#
#   tools/gpu/pack.sh      on a machine with the packages of tools/setup.sh and the CUDA Toolkit
. "$(dirname "$0")/../common.sh"

root=/tmp/runtime-gpu # the same there: programs know files beside them by their whole path
carried=tools/gpu/carried
most_mib=60
packages=(libtomlplusplus-dev libcli11-dev libfmt-dev libfmt9 nlohmann-json3-dev libgtest-dev libgmock-dev libdnnl-dev
  libdnnl2 libgloo-dev libgloo0 zlib1g-dev zlib1g)

say "Build"
rm -rf $root/build/share # of a pack that was tried here: the build has a link
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake -S . -B $root/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DRUNTIME_TEST_OPTIONS=-O1 \
  -DCMAKE_CUDA_ARCHITECTURES="${RUNTIME_GPU_ARCHITECTURES:-90}" -DRUNTIME_PLUGINS="cpu;cuda;gloo;nccl" \
  "${launcher[@]}"
targets=(runtime backend_reference backend_cpu backend_cuda collectives_local collectives_gloo collectives_nccl
  backends_cuda_conformance_test)
known=$(ninja -C $root/build -t targets all)
for i in "${!targets[@]}"; do
  grep -q "^${targets[i]}: phony" <<<"$known" || { echo "left out: ${targets[i]}"; unset "targets[i]"; }
done
nice cmake --build $root/build --parallel "$(nproc)" --target "${targets[@]}"

say "Collect"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/{build/tests,build/share/runtime,lib,usr}
cp -r $root/build/bin $root/build/lib "$stage/build"
rm -f "$stage"/build/lib/*.a
cp $root/build/tests/backends_cuda_conformance_test "$stage/build/tests"
cp -rL configs "$stage/build/share/runtime/configs"
git rev-parse --short HEAD >"$stage/commit" 2>/dev/null || echo unknown >"$stage/commit"
# Shared libraries, but for those of the C and C++ compilers and of CUDA.
{ find "$stage"/build/{bin,lib,tests} -type f -exec ldd {} + 2>/dev/null || true; } |
  sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux.*|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas|libcublasLt|libcudnn.*|libnccl)\.so' |
  xargs -r cp -L -t "$stage/lib"
for package in "${packages[@]}"; do
  dpkg -L "$package" >"$stage/list" 2>/dev/null || echo "left out: package $package"
  while read -r file; do
    if [[ $file =~ ^/usr/(include|lib|share/(cmake|pkgconfig))/ && -f $file ]]; then cp --parents -P "$file" "$stage"; fi
  done <"$stage/list"
done
rm "$stage/list"
find "$stage"/build/{bin,lib,tests} -type f -exec strip --strip-unneeded {} +

say "Pack"
mkdir -p $carried
tar -C "$stage" -cf - . | nice xz -T0 -6 >$carried/pack.tar.xz
size=$(stat -c %s $carried/pack.tar.xz)
echo "$carried/pack.tar.xz: $((size >> 20)) MiB of commit $(cat "$stage/commit")"
[ $((size >> 20)) -le $most_mib ] || die "that is more than the $most_mib MiB that can be carried; leave out packages"
