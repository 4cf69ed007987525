#!/usr/bin/env bash
# Prepares the files that tools/gpu/check.sh needs on a machine without packages: a Release build with the plugin cuda,
# the shared libraries that it links, and headers and libraries to build there instead. They go into one file:
# tools/gpu/carried/pack.tar.xz.
#
#   tools/gpu/pack.sh                  builds in build-gpu/ and packs; needs the packages of tools/setup.sh and the CUDA Toolkit
#   tools/gpu/pack.sh --build FOLDER   packs that Release build for the same architecture, as CI does with its own
. "$(dirname "$0")/../common.sh"

carried=tools/gpu/carried
most_mib=56
architectures=${RUNTIME_GPU_ARCHITECTURES:-90}
plugins=(backend_reference backend_cpu backend_cuda collectives_local collectives_gloo collectives_nccl)
tests=(backends_cuda_conformance_test backends_cuda_large_operands_test backends_cpu_conformance_test collectives_nccl_gpu_test differential_operations)
packages=(libtomlplusplus-dev libcli11-dev libfmt-dev libfmt9 nlohmann-json3-dev libgtest-dev libgmock-dev libdnnl-dev
  libdnnl2 libgloo-dev libgloo0 zlib1g-dev zlib1g libutf8proc-dev libutf8proc2 libonig-dev libonig5)

build=
case "${1:-}" in
  --build) build=${2:?--build needs a folder} ;;
  "") ;;
  *) die "unknown argument $1; expected --build FOLDER or nothing" ;;
esac

# cached <variable>: prints its value in the build's CMakeCache.txt.
cached() { sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"; }

if [ -z "$build" ]; then
  build="build-gpu"
  say "Build"
  launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DRUNTIME_TEST_OPTIONS=-O1 \
    -DCMAKE_CUDA_ARCHITECTURES="$architectures" -DRUNTIME_PLUGINS="cpu;cuda;gloo;nccl" "${launcher[@]}"
  targets=(runtime runtime-bench runtime-verify gpu_limits "${plugins[@]}" "${tests[@]}")
  known=$(ninja -C $build -t targets all)
  for i in "${!targets[@]}"; do
    grep -q "^${targets[i]}: phony" <<<"$known" || { echo "left out: ${targets[i]}"; unset "targets[i]"; }
  done
  nice cmake --build $build --parallel "$(nproc)" --target "${targets[@]}"
fi
[ -e "$build/lib/runtime/plugins/libbackend_cuda.so" ] ||
  die "$build has no plugin cuda; it needs the CUDA Toolkit (nvcc) and the target backend_cuda"
[ "$(cached CMAKE_BUILD_TYPE)" = Release ] || die "$build is a $(cached CMAKE_BUILD_TYPE) build, expected Release"
# If CMAKE_CUDA_ARCHITECTURES is not set, the plugin is built for its default list, which includes architecture 90.
known=$(cached CMAKE_CUDA_ARCHITECTURES)
case ";${known:-90};" in
  *";$architectures;"* | *";$architectures-real;"*) ;;
  *) die "$build is for the CUDA architectures '$known', expected '$architectures' (RUNTIME_GPU_ARCHITECTURES)" ;;
esac

say "Collect"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/build/{bin,tests,lib/runtime/plugins,libexec/runtime,share/runtime} "$stage"/{lib,lib-compiler,usr}
# take <file in the build>: copies the file to the same place in the pack.
take() { if [ -e "$build/$1" ]; then cp "$build/$1" "$stage/build/$1"; else echo "left out: $1"; fi; }
for name in runtime runtime-bench runtime-verify; do take "bin/$name"; done
take bin/gpu_limits
take libexec/runtime/plugin_probe
for name in "${plugins[@]}"; do take "lib/runtime/plugins/lib$name.so"; done
for name in "${tests[@]}"; do take "tests/$name"; done
cp -rL configs "$stage/build/share/runtime/configs"
git rev-parse --short HEAD >"$stage/commit" 2>/dev/null || echo unknown >"$stage/commit"
if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then echo "and changes" >>"$stage/commit"; fi
for package in "${packages[@]}"; do
  dpkg -L "$package" >"$stage/list" 2>/dev/null || echo "left out: package $package"
  while read -r file; do
    if [[ $file =~ ^/usr/(include|lib|share/(cmake|pkgconfig))/ && -f $file ]]; then cp --parents -P "$file" "$stage"; fi
  done <"$stage/list"
done
rm "$stage/list"
# All shared libraries except those of the C library and of CUDA. Those of the compiler go into a folder of their own:
# they are used only if the machine's own are older.
needed=$({ find "$stage/build" -type f -perm -u+x -exec ldd {} + 2>/dev/null || true; } |
  sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*|libcuda|libcudart|libcublas|libcublasLt|libcudnn.*|libnccl)\.so')
compilers='/(libstdc\+\+|libgcc_s)\.so'
for library in $needed; do
  to=$stage/lib
  if [[ $library =~ $compilers ]]; then to=$stage/lib-compiler; fi
  # If the loop above has already copied the library from its Debian package, it gets a second name by a hard link.
  packaged=$stage$(realpath "$library")
  if [ -e "$packaged" ]; then ln "$packaged" "$to/${library##*/}"; else cp -L "$library" "$to"; fi
done
find "$stage"/build/{bin,lib,libexec,tests} -type f -exec strip --strip-unneeded {} +

say "Pack"
mkdir -p $carried
tar -C "$stage" --owner=0 --group=0 --mode=u+rwX,go+rX,go-w -cf - . | nice xz -T0 -3 >$carried/pack.tar.xz.new
size=$(stat -c %s $carried/pack.tar.xz.new)
mib=$(((size + 1048575) >> 20))
[ $mib -le $most_mib ] || die "the pack has $mib MiB, at most $most_mib can be carried; leave out packages"
mv $carried/pack.tar.xz.new $carried/pack.tar.xz
echo "$carried/pack.tar.xz: $mib MiB of commit $(tr '\n' ' ' <"$stage/commit")"
