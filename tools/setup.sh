#!/usr/bin/env bash
# Installs the packages of the distribution that the project needs (Debian 12, Ubuntu 24.04 or newer).
#
#   tools/setup.sh --minimal   to build and to train
#   tools/setup.sh --ranks     the same, and Gloo and Open MPI, for ranks that are processes, and their numbers over HTTP
#   tools/setup.sh --packages  the same as --ranks, and what tools/package.sh needs, for packages with every rendezvous
#   tools/setup.sh             as --minimal, and what the tests need
#   tools/setup.sh --dev       the same, and clang: fuzzing, formatting, linting
#   tools/setup.sh --lint      only what tools/lint_scripts.sh needs
#
# Installed packages are left alone. If no package is missing, the script needs neither the network nor root.
. "$(dirname "$0")/common.sh"

train=(ca-certificates cmake ninja-build g++ libdnnl-dev libtomlplusplus-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev zlib1g-dev libdeflate-dev libutf8proc-dev libonig-dev libjpeg-dev libpng-dev dataset-fashion-mnist)
tests=(libgtest-dev libgmock-dev python3)
# Some distributions lack some of these packages. The tests that need them then report that they are skipped.
optional_tests=(python3-numpy python3-pil python3-torch python3-sklearn zsh fish strace libgloo-dev libopenmpi-dev openmpi-bin libmpich-dev mpich libpmix-dev
  libhiredis-dev redis-server libmicrohttpd-dev iproute2 netcat-openbsd hipcc libamdhip64-dev dpkg-dev file
  ocl-icd-opencl-dev opencl-headers pocl-opencl-icd)
ranks=(libgloo-dev libopenmpi-dev openmpi-bin libmicrohttpd-dev)
packages=(dpkg-dev file)
lint=(pyflakes3 shellcheck)
dev=(clang clang-format clang-tidy libclang-rt-dev ccache git "${lint[@]}")

wanted=("${train[@]}" "${tests[@]}")
optional=("${optional_tests[@]}")
case "${1:-}" in
  --minimal) wanted=("${train[@]}") optional=() ;;
  --ranks) wanted=("${train[@]}") optional=("${ranks[@]}") ;;
  --packages) wanted=("${train[@]}" "${packages[@]}") optional=("${ranks[@]}" libhiredis-dev libpmix-dev) ;;
  --dev) wanted+=("${dev[@]}") ;;
  --lint) wanted=() optional=("${lint[@]}") ;;
  "") ;;
  *) die "unknown argument $1; expected --minimal, --ranks, --packages, --dev, --lint or nothing" ;;
esac

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "packages are missing, and this is neither root nor is sudo there; as root: $*"
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# available <package>: whether the package has a version that can be installed.
available() { [[ "$(apt-cache policy "$1" 2>/dev/null)" == *"Candidate: "[0-9]* ]]; }

missing=()
for package in "${wanted[@]}"; do
  installed "$package" || missing+=("$package")
done
absent=()
for package in "${optional[@]}"; do
  installed "$package" || absent+=("$package")
done

if [ ${#missing[@]} -gt 0 ] || [ ${#absent[@]} -gt 0 ]; then
  command -v apt-get >/dev/null ||
    die "no apt-get on this machine; install what these Debian packages hold: ${missing[*]} ${absent[*]}"
  say "Installing: ${missing[*]} ${absent[*]}"
  # If the list cannot be updated, the old list may still suffice; the install below fails if not.
  apt update || echo "warning: the list of packages could not be updated; going on with the one that is there"
  for package in "${absent[@]}"; do
    if available "$package"; then
      missing+=("$package")
    else
      echo "skipped: no package $package in this distribution; what needs it is left out, and its tests are skipped"
    fi
  done
  [ ${#missing[@]} -eq 0 ] || apt install --no-install-recommends "${missing[@]}"
else
  say "All packages are installed"
fi

version=$(cmake --version | sed -n '1s/.* //p')
[ "$(printf '%s\n' 3.25 "$version" | sort -V | head -1)" = 3.25 ] ||
  die "CMake is $version, expected 3.25 or newer; Debian 12 and Ubuntu 24.04 have it"
