#!/bin/sh
# Measures the cost of a rank of half the speed: synchronous against asynchronous updates (max_staleness = 4), two ranks
# of one thread each, the second on the test plugin `slow`. The runs alternate; the last line has the medians and their
# ratio.
#
#   tools/peers/slow_rank.sh [BUILD [CONFIG [ROUNDS [STEPS [BACKEND]]]]]
set -eu
build=${1:-build}
config=${2:-configs/fashion_mnist_lenet.toml}
rounds=${3:-5}
steps=${4:-300}
backend=${5:-local}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_WAIT_POLICY=PASSIVE RUNTIME_PLUGIN_PATH="$build/tests/slow_plugin"

# Prints the samples per second in the second half of a run.
speed() {
  "$build/bin/runtime" train "$config" --nproc 2 --max-steps "$steps" --set comm.backend="$backend" \
    --set "job.dump_folder=$folder/$1-$round" --set "metrics.log_every_steps=$((steps / 2))" --set metrics.progress=lines \
    --set validation.every_epochs=0 --set 'launch.devices=["cpu", "slow"]' --set device.threads=1 \
    --set "parallelism.update=$1" --set "parallelism.max_staleness=$2" 2>>"$folder/log" |
    sed -n "s/.*\"step\":$steps,.*\"samples_per_second\":\([0-9]*\).*/\1/p" | tail -n 1
}

median() { sort -n "$1" | sed -n "$(((rounds + 1) / 2))p"; }

round=1
while [ "$round" -le "$rounds" ]; do
  synchronous=$(speed synchronous 0)
  asynchronous=$(speed asynchronous 4)
  if [ -z "$synchronous" ] || [ -z "$asynchronous" ]; then
    cat "$folder/log" >&2
    exit 1
  fi
  echo "$synchronous" >>"$folder/synchronous.txt"
  echo "$asynchronous" >>"$folder/asynchronous.txt"
  echo "round $round: synchronous $synchronous samples/s, asynchronous $asynchronous samples/s"
  round=$((round + 1))
done
a=$(median "$folder/asynchronous.txt")
s=$(median "$folder/synchronous.txt")
echo "medians: synchronous $s, asynchronous $a samples/s, ratio $(awk "BEGIN { printf \"%.2f\", $a / $s }")"
