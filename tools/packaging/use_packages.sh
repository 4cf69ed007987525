#!/usr/bin/env bash
# What a user does with the packages, in a bare Debian that try_packages.sh has made; /packages has them. First the programs
# alone: install, train, remove. Then with runtime-dev: build plugins as the tutorial says, train on them, remove. Each time the same files lie in the
# system before and after. The packages of Debian on which they depend are installed before the files are listed, because some of
# those leave files when they are removed, and apt keeps some; what apt removes of them is removed at the end.
set -euo pipefail
work=/root/work
configs=/usr/share/runtime/configs

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

apt() { apt-get -q -y --no-install-recommends "$@" >/packages/log 2>&1 || fail "apt-get $*: $(tail -20 /packages/log)"; }

# expect <text> <command...>: runs the command, shows it, and fails unless its output has the text.
expect() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || fail "$*: exit $?: $output"
  grep -qF -- "$text" <<<"$output" || fail "$*: expected \"$text\" in: $output"
  printf '$ %s\n  %s\n' "$*" "$(grep -F -m 1 -- "$text" <<<"$output" | cut -c 1-150)"
}

# files: all files of the system but those in which apt and dpkg keep their own records.
files() {
  find / -xdev \( -path /packages -o -path /proc -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache/apt \
    -o -path /var/cache/debconf -o -path /var/log \) -prune -o -printf '%y %p\n' | sort
}

# needs_of <package file...>: what the packages depend on but each other, for apt-get satisfy.
needs_of() {
  local file
  for file in "$@"; do dpkg-deb -f "$file" Depends; done | sed -E 's/runtime \(= [^)]*\)(, )?//; /^$/d' | paste -sd,
}

# remove <what>: removes all packages of runtime and what they were used for, and compares the files with those before.
remove() {
  local packages
  mapfile -t packages < <(dpkg-query -W -f '${Package}\n' 'runtime*')
  apt purge "${packages[@]}"
  rm -rf "$work"
  files >/packages/after
  diff /packages/before /packages/after || fail "$1: files differ from those before the installation"
  echo "removed ${packages[*]}: the same $(wc -l </packages/before) files as before"
}

# block <language> <number>: that block of code of the tutorial.
block() {
  awk -v fence="\`\`\`$1" -v wanted="$2" '$0 == "```" {inside = 0} inside {print} $0 == fence {inside = ++count == wanted}' \
    /usr/share/doc/runtime/plugins/TUTORIAL.md
}

# follow <number> <text>: runs the commands of that block of the tutorial in a shell, as an author would, and expects the text.
follow() {
  block sh "$1" >"$work/block"
  expect "$2" bash -e "$work/block"
}

# write_matmul: what the fourth step of the tutorial tells an author to write.
write_matmul() {
  block cpp 1 >function && block cpp 2 >row
  sed -i -e '/^constexpr struct {/e cat function; echo' -e '/RT_OP_SCALE, plan_scale/e cat row' \
    -e '/rt\/sdk\/expect.h/a #include "rt/sdk/matmul.h"' tutorial_device/kernel.cpp
}

# make_plugin <kind> <name>
make_plugin() {
  expect "next:" runtime plugins new --kind "$1" "$2"
  expect "Build files have been written" cmake -S "$2" -B "$2/build"
  expect "Built target" cmake --build "$2/build"
  export RUNTIME_PLUGIN_PATH=$work/$2/build/lib/runtime/plugins
  expect " 0 failed" runtime plugins check "$RUNTIME_PLUGIN_PATH/lib$2.so"
}

apt update
files >/packages/bare
apt-mark showmanual | sort >/packages/wanted
apt satisfy "$(needs_of /packages/*.deb)"
files >/packages/before
apt install /packages/runtime_*.deb /packages/runtime-plugin-*.deb
mkdir -p "$work"
cd "$work"
export HOME=$work
version=$(dpkg-query -W -f '${Version}' runtime)
expect "$version" runtime --version
expect "cpu:0 " runtime devices
expect "reference:0 " runtime devices
expect "done: 50 steps" runtime train $configs/bench_mlp.toml --set job.dump_folder=mlp
expect "done: 1500 steps" runtime train $configs/csv_regression.toml --set job.dump_folder=table
expect "done: 3 steps" runtime train $configs/bench_lenet.toml --nproc 2 --set device.backend=reference --max-steps 3
for plugin in /packages/runtime-plugin-{gloo,mpi}_*.deb; do
  name=$(dpkg-deb -f "$plugin" Package)
  expect "${name##*-} " runtime plugins list
done
expect "done: 3 steps" runtime train $configs/bench_mlp.toml --nproc 2 --set comm.backend=gloo --max-steps 3
expect "Usage: runtime sweep" runtime sweep --help
expect "Usage: runtime tune" runtime tune --help
expect "Usage: runtime report" runtime report --help
expect "report.html" runtime report table --output report.html
[ -s report.html ] || fail "runtime report has written no page"
[ -s /usr/share/man/man1/runtime.1.gz ] || fail "there is no manual page"
expect "RUNTIME 1" gunzip -c /usr/share/man/man1/runtime.1.gz
cd /
remove "programs"

apt install cmake make g++ dataset-fashion-mnist
files >/packages/before
apt install /packages/runtime_*.deb /packages/runtime-dev_*.deb /packages/runtime-plugin-cpu_*.deb
mkdir -p "$work"
cd "$work"
cp -r /usr/share/doc/runtime/plugins/examples/minimal_device_c example
expect "Build files have been written" cmake -S example -B build
expect "Built target" cmake --build build
export RUNTIME_PLUGIN_PATH=$work/build/lib/runtime/plugins
expect "example:0 " runtime devices
expect "done: 3 steps" runtime train $configs/bench_mlp.toml --set device.backend=example --max-steps 3

SECONDS=0
follow 1 "Built target"
follow 2 " 0 failed"
follow 3 "matmul runs on cpu:0"
export RUNTIME_PLUGIN_PATH=$work/tutorial_device/build/lib/runtime/plugins
write_matmul
follow 4 "passed  kernels      matmul"
expect "done: 100 steps" runtime train $configs/fashion_mnist_lenet.toml --set device.backend=tutorial_device \
  --set device.host_fallback=cpu --max-steps 100
echo "the tutorial: $((SECONDS / 60)) minutes $((SECONDS % 60)) seconds of the machine's time, $(cat function row | wc -l) lines" \
  "of code written and $(cat tutorial_device/*.cpp tutorial_device/*.h | wc -l) in the project"
make_plugin communicator ring
expect "done: 3 steps" runtime train $configs/bench_lenet.toml --nproc 2 --set comm.backend=ring --max-steps 3
make_plugin operation layers
cat >layers.toml <<'END'
[model]
input = [6]
layers = [ { type = "linear", features = 5 }, { type = "layers.scaled_tanh", slope = 0.5 }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 24
classes = 3
[training]
global_batch_size = 8
epochs = 2
[optimizer]
name = "layers.descent"
lr = 0.1
END
expect "done: 6 steps" runtime train layers.toml
expect "2 gradients of operations of plugins compared" runtime verify layers.toml --gradients
cd /
remove "runtime-dev"

# What was asked for above is no longer wanted, nor is what it depends on.
apt-mark showmanual | sort | comm -13 /packages/wanted - | xargs apt-mark auto >/packages/log
apt autoremove --purge
files | diff /packages/bare - >/packages/log || true
! grep -E '/_?runtime([-./]|$)|/include/rt' /packages/log || fail "files of runtime are in the system that was bare"
echo "removed what they depend on: $(grep -c '^>' /packages/log || true) files of Debian's own packages stay"
