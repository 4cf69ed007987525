#!/usr/bin/env bash
# Checks that training with configs/csv_regression.toml comes to the validation error that a comment in that file
# states. Arguments: <runtime program> <configuration> <backend>
set -euo pipefail
runtime=$1 config=$2 backend=$3
bound=2.0 # the file states 1.50; another order of sums moves it by a few hundredths, the mean of y gives 25

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache
cd "$work"
"$runtime" train "$config" --set device.backend="$backend" --set job.dump_folder=run >log 2>&1 </dev/null || {
  cat log >&2
  exit 1
}
error=$(sed -n 's/.*"validation_loss":\([0-9.eE+-]*\).*/\1/p' run/metrics.jsonl | tail -1)
echo "validation error on $backend: ${error:-none}, expected below $bound"
awk -v error="$error" -v bound="$bound" 'BEGIN {exit !(error != "" && error + 0 > 0.5 && error + 0 < bound + 0)}'
