#!/usr/bin/env bash
# Makes Debian packages of this tree for this distribution and prints their names: runtime, runtime-dev and one for each plugin
# whose library is installed.
#
#   tools/package.sh                  builds in build-packages/, without tests; the packages go to build-packages/packages
#   tools/package.sh --build FOLDER   packs that build, which must be a whole one; the packages go to FOLDER/packages
. "$(dirname "$0")/common.sh"

build=build-packages whole=
case "${1:-}" in
  --build) build=${2:?--build needs a folder} ;;
  "") whole=1 ;;
  *) die "unknown argument $1; expected --build FOLDER or nothing" ;;
esac

for tool in dpkg-shlibdeps file gzip; do
  command -v "$tool" >/dev/null || die "$tool is missing, which packages are made with; tools/setup.sh --packages installs it"
done

if [ -n "$whole" ]; then
  say "Building into $build/"
  configure release -B "$build" -DRUNTIME_BUILD_TESTS=OFF
  cmake --build "$build" --parallel "$(nproc)"
fi
[ -e "$build/CPackConfig.cmake" ] || die "$build is no build of this project: it has no CPackConfig.cmake"

say "Packages"
rm -f "$build"/packages/*.deb
cpack --config "$build/CPackConfig.cmake"
ls -- "$build"/packages/*.deb
