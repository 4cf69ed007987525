#!/usr/bin/env bash
# Makes the Debian packages of a build and compares them with other sources of the same facts: their files with an installation
# into a folder, their plugins with those that were built, their dependencies with the libraries that the programs name and
# dpkg's record of which package has them, the version and the manual pages with what the program prints.
# Arguments: <cmake> <cpack> <source folder> <build folder>. Exit code 77: a tool of Debian is missing.
set -euo pipefail
cmake=$1 cpack=$2 source=$3 build=$4

for tool in dpkg-deb dpkg-shlibdeps file readelf; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool not found (Debian: dpkg-dev, file, binutils)" && exit 77; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache LC_ALL=C

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# field <package> <name>: a field of the control file.
field() { dpkg-deb -f "$work/$1.deb" "$2"; }

# files_of <package>: the paths of its files, without folders.
files_of() { dpkg-deb -c "$work/$1.deb" | awk '!/^d/ {sub(/^\./, "", $6); print $6}'; }

# expect_same <what> <expected file> <actual file>
expect_same() { diff "$2" "$3" >"$work/diff" || fail "$1 (<: expected, >: actual): $(cat "$work/diff")"; }

"$cpack" --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/log" 2>&1 || fail "cpack: $(cat "$work/log")"
for file in "$work"/cpack/*.deb; do
  mv "$file" "$work/$(dpkg-deb -f "$file" Package).deb"
done
mapfile -t packages < <(cd "$work" && printf '%s\n' *.deb | sed 's/\.deb$//')

# One package for each plugin that was built, but for those that the program itself needs.
{
  printf '%s\n' runtime runtime-dev
  for plugin in "$build"/lib/runtime/plugins/lib*.so; do
    name=$(basename "$plugin" .so)
    name=${name#lib}
    case $name in
      backend_reference | collectives_local) ;;
      backend_* | collectives_*) echo "runtime-plugin-${name#*_}" ;;
    esac
  done
} | sort >"$work/expected"
printf '%s\n' "${packages[@]}" | sort >"$work/actual"
expect_same "packages" "$work/expected" "$work/actual"

version=$("$build/bin/runtime" --version)
for package in "${packages[@]}"; do
  [ "$(field "$package" Version)" = "$version" ] ||
    fail "$package has version $(field "$package" Version), and runtime --version prints $version"
  [ "$(field "$package" Architecture)" = "$(dpkg --print-architecture)" ] || fail "$package: $(field "$package" Architecture)"
  for name in Maintainer Section Description Installed-Size; do
    [ -n "$(field "$package" "$name")" ] || fail "$package has no field $name"
  done
  [ "$package" = runtime ] || grep -qF "runtime (= $version)" <<<"$(field "$package" Depends)" ||
    fail "$package does not depend on its version of runtime: $(field "$package" Depends)"
  for document in copyright changelog.gz; do
    grep -qx "/usr/share/doc/$package/$document" <<<"$(files_of "$package")" || fail "$package has no $document"
  done
  dpkg-deb --fsys-tarfile "$work/$package.deb" | tar -xO "./usr/share/doc/$package/changelog.gz" | gunzip |
    cmp - "$source/CHANGELOG.md" || fail "$package: changelog.gz is not CHANGELOG.md; is the build older?"
done
[[ $(field runtime-dev Section) = libdevel ]] || fail "runtime-dev is in section $(field runtime-dev Section)"

# Together the packages have what an installation has, each file once, and nothing else but their own documents.
DESTDIR=$work/installed "$cmake" --install "$build" --prefix /usr >"$work/log" || fail "install: $(cat "$work/log")"
(cd "$work/installed" && find . ! -type d | sed 's/^\.//') | sort >"$work/expected"
for package in "${packages[@]}"; do
  files_of "$package" | grep -vE "^/usr/share/doc/$package/(copyright|changelog\.gz)$"
done | sort >"$work/actual"
expect_same "files" "$work/expected" "$work/actual"

# expect_files <package> <file...>
expect_files() {
  local file
  for file in "${@:2}"; do
    grep -qx "/usr/$file" <<<"$(files_of "$1")" || fail "$file is not in $1"
  done
}
expect_files runtime bin/runtime bin/runtime-bench bin/runtime-diagnose bin/runtime-launch bin/runtime-report bin/runtime-sweep bin/runtime-tune bin/runtime-verify libexec/runtime/plugin_probe \
  lib/runtime/plugins/libbackend_reference.so lib/runtime/plugins/libcollectives_local.so share/runtime/configs/presets/lenet.toml \
  share/runtime/configs/data/friedman1.csv share/runtime/pytorch/record_step.py share/bash-completion/completions/runtime share/zsh/vendor-completions/_runtime \
  share/fish/vendor_completions.d/runtime.fish share/man/man1/runtime.1.gz
expect_files runtime-dev include/rt/plugin.h include/rt/sdk/error.h include/runtime/tensor/tensor.h lib/libruntime_tensor.a \
  lib/cmake/runtime/runtimeConfig.cmake share/doc/runtime/plugins/examples/minimal_device_c/plugin.c
for package in "${packages[@]}"; do
  [[ $package != runtime-plugin-* ]] || grep -qE "^/usr/lib/runtime/plugins/lib[a-z]+_${package##*-}\.so$" <<<"$(files_of "$package")" ||
    fail "$package has no plugin: $(files_of "$package")"
done

# Each library that a program or plugin names belongs to a package on which its package depends.
for package in "${packages[@]}"; do
  mkdir "$work/tree"
  dpkg-deb -x "$work/$package.deb" "$work/tree"
  mapfile -t libraries < <(find "$work/tree" -type f \( -name '*.so' -o -perm -u+x \) -exec readelf -d {} + 2>/dev/null |
    sed -n 's/.*Shared library: \[\(.*\)\]$/\1/p' | sort -u)
  # "package: path" or "package:architecture: path" for every file of such a name; one call, because each reads all lists.
  [ ${#libraries[@]} -eq 0 ] || dpkg -S "${libraries[@]/#/*/}" >"$work/owners" 2>/dev/null || true
  depends=" $(field "$package" Depends | tr ',|' '  ') "
  for library in "${libraries[@]}"; do
    owners=$(awk -v end="/$library" 'substr($0, length($0) - length(end) + 1) == end {sub(/:.*/, ""); print}' "$work/owners")
    [ -n "$owners" ] || { echo "$package: no package of this system has $library" && continue; }
    found=
    for owner in $owners; do
      [[ $depends == *" $owner "* ]] && found=1
    done
    [ -n "$found" ] || fail "$package needs $library of $owners and depends on $depends"
  done
  rm -rf "$work/tree"
done

# Every command has a page, and the page has every option that --help prints.
mkdir "$work/tree"
dpkg-deb -x "$work/runtime.deb" "$work/tree"
pages=$work/tree/usr/share/man/man1
help_of() { PATH='' "$build/bin/runtime" "$@" --help; }
expect_page() {
  local page=$1 option
  shift
  gunzip -c "$pages/$page.1.gz" | sed 's/\\-/-/g' >"$work/page" || fail "no page $page"
  while read -r option; do
    grep -qF -- "$option" "$work/page" || fail "the page $page lacks $option of runtime $* --help"
  done < <(help_of "$@" | grep -oE '^  (-[a-z],)?--[a-z-]+')
}
commands=0
while read -r command; do
  expect_page "runtime-$command" "$command"
  commands=$((commands + 1))
done < <(help_of | awk '/^(Subcommands|SUBCOMMANDS|Commands that are programs of their own):$/ {on = 1; next} !/^  / {on = 0} on {print $1}')
[ "$commands" -ge 16 ] || fail "$commands commands were found in runtime --help, expected at least 16"
expect_page runtime-tune tune batch
expect_page runtime-tune tune lr
expect_page runtime-checkpoint checkpoint export
if command -v man >/dev/null && command -v groff >/dev/null; then
  for page in "$pages"/*.gz; do
    warnings=$(MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || fail "man $page: $warnings"
    [ -z "$warnings" ] || fail "man $page: $warnings"
  done
fi
echo "${#packages[@]} packages: ${packages[*]}"
