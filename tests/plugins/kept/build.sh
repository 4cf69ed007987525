#!/usr/bin/env bash
# Builds the plugins of a released version, to be kept beside this script. Run it once at a release, and add the folder.
#
#   tests/plugins/kept/build.sh COMMIT    writes tests/plugins/kept/COMMIT/<machine>/lib*.so
#
# Binaries that were added are never built again: they stand for those that people have.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
commit=$(git -C "$here" rev-parse --short=7 "$1^{commit}")
target=$here/$commit/$(uname -m)
[ ! -e "$target" ] || { echo "error: $target exists; kept plugins are never built again" >&2; exit 1; }
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git -C "$here/../../.." archive "$commit" plugins backends/reference collectives/local | tar -x -C "$source"
cd "$source"
mkdir -p "$target"
flags=(-Os -fPIC -fvisibility=hidden -shared -s -I. -Iplugins/include -Iplugins/sdk "-Wl,--no-undefined")
example=plugins/examples/minimal_device_c template=plugins/examples/template_device
cc -std=c11 "${flags[@]}" $example/*.c -I$example -lm -o "$target/libexample.so"
c++ -std=c++20 "${flags[@]}" $template/*.cpp -I$template -o "$target/libtemplate_device.so"
c++ -std=c++20 "${flags[@]}" backends/reference/*.cpp -o "$target/libbackend_reference.so"
c++ -std=c++20 "${flags[@]}" collectives/local/*.cpp -pthread -o "$target/libcollectives_local.so"
chmod 644 "$target"/*.so
ls -l "$target"
