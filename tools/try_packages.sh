#!/usr/bin/env bash
# Makes the Debian packages in a fresh system of its own for each release of Debian, and tries them in a second, bare one:
# they are installed, train, build a plugin, and leave nothing behind when they are removed. Needs root, debootstrap and a mirror of
# Debian; takes as long as two builds. Nothing of the system that runs the script changes.
#
#   tools/try_packages.sh [RELEASE...]   bookworm and trixie, unless others are named
#
# The packages go to build-packages/<release>/. MIRROR names another mirror than that of debootstrap. If CCACHE_DIR is set, the
# builds use that folder of ccache's. Exit code 77: root or debootstrap is missing.
. "$(dirname "$0")/common.sh"

[ "$(id -u)" = 0 ] || { echo "skipped: fresh systems are made by root only" && exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: debootstrap not found (Debian: debootstrap)" && exit 77; }
releases=("$@")
[ $# -gt 0 ] || releases=(bookworm trixie)
for release in "${releases[@]}"; do
  [[ $release =~ ^[a-z]+$ ]] || die "unknown argument $release; expected names of releases of Debian, like bookworm"
done

work=$(mktemp -d /var/tmp/runtime-packages.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

# inside <folder> <command...>: runs the command with the folder as its root, and with mounts and processes of its own, which end
# with it.
inside() {
  cp /etc/resolv.conf "$1/etc/resolv.conf"
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --pid --fork bash -ec '
    root=$1 && shift
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    if [ -n "${CCACHE_DIR:-}" ] && [ -d "$root/ccache" ]; then mount --bind "$CCACHE_DIR" "$root/ccache"; fi
    export HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive ${CCACHE_DIR:+CCACHE_DIR=/ccache}
    exec chroot "$root" "$@"' - "$@" </dev/null
}

# copy_sources <folder>: the files of this tree that are no build's.
copy_sources() {
  mkdir -p "$1"
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory "$1"
  else
    tar --create --exclude='./build*' --exclude=./outputs . | tar --extract --directory "$1"
  fi
}

# make_packages <release>: in the system $work/build, of which nothing else is kept.
make_packages() {
  local kept=build-packages/$1
  copy_sources "$work/build/source"
  if [ -n "${CCACHE_DIR:-}" ]; then
    mkdir "$work/build/ccache"
    inside "$work/build" sh -ec 'apt-get -q update && apt-get -q -y install --no-install-recommends ccache'
  fi
  inside "$work/build" sh -ec 'cd /source && tools/setup.sh --packages && tools/package.sh'
  mkdir -p "$kept"
  rm -f "$kept"/*.deb
  mv "$work"/build/source/build-packages/packages/*.deb "$kept"
}

for release in "${releases[@]}"; do
  say "$release: a bare system"
  debootstrap --variant=minbase "$release" "$work/bare" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1 || die "debootstrap: $(tail -5 "$work/log")"
  say "$release: build"
  cp -a "$work/bare" "$work/build"
  make_packages "$release"
  say "$release: install, train, remove"
  mkdir "$work/bare/packages"
  cp build-packages/"$release"/*.deb tools/packaging/use_packages.sh "$work/bare/packages"
  inside "$work/bare" bash /packages/use_packages.sh
  rm -rf --one-file-system "$work/bare" "$work/build"
  say "$release: done"
done
