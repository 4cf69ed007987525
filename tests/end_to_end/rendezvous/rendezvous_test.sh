#!/usr/bin/env bash
# Two ranks that our launcher has not started find each other and compute what one rank computes.
# Arguments: <runtime program> <source folder> <case>. Exit code 77: what the case needs is not installed.
set -euo pipefail
runtime=$1 source=$2 kind=$3
limit=60 # seconds for one run

work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache TMPDIR=$work
unset RUNTIME_RENDEZVOUS RUNTIME_RUN_ID

skip() {
  echo "skipped: $*"
  exit 77
}

need() { command -v "$1" >/dev/null || skip "$1 is not installed (Debian: $2)"; }

train=("$runtime" train "$source/configs/csv_regression.toml" --max-steps 20 --set device.threads=1
  --set metrics.log_every_steps=1 --set metrics.progress=lines --set "dataset.path=$source/configs/data/friedman1.csv")
two=(--set comm.backend=gloo --set comm.init_timeout_s=30 --set "job.dump_folder=$work/two")

# by_hand <prefix of the names of the variables>: starts both ranks as children of this shell.
by_hand() {
  local rank pids=()
  for rank in 1 0; do
    env "$1RANK=$rank" "$1WORLD_SIZE=2" "$1LOCAL_RANK=$rank" "$2=2" timeout "$limit" \
      "${train[@]}" "${two[@]}" "${@:3}" >"$work/$rank.out" 2>"$work/$rank.err" </dev/null &
    pids+=($!)
  done
  wait "${pids[0]}" && wait "${pids[1]}"
}

start_redis() {
  for _ in 1 2 3 4 5; do # another process may take the port before the server does
    port=$((20000 + RANDOM % 10000))
    redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" 2>&1 &
    server=$!
    for _ in $(seq 50); do
      kill -0 "$server" 2>/dev/null || break
      if grep -q 'Ready to accept' "$work/redis.log"; then return; fi
      sleep 0.1
    done
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  done
  cat "$work/redis.log"
  echo "redis-server did not start on any of 5 ports"
  exit 1
}

# With Python 3.11, torchrun of PyTorch 1.13 fails unless -r and -t (here 1: standard output) say which output it writes to
# files and shows. torchrun of Debian 13 cannot start any process, because its PyTorch is built without libuv; the first
# call finds that out.
need_torchrun() {
  need torchrun python3-torch
  timeout 30 torchrun --standalone --nproc_per_node 1 -r 1 -t 1 --log_dir "$work/probe" --no_python true \
    >"$work/torch.out" 2>&1 ||
    skip "torchrun cannot start 'true': $(grep -m 1 Error "$work/torch.out")"
}

run_two() {
  case $kind in
    hand)
      export RUNTIME_RUN_ID=hand # `timeout` gives each rank another parent
      by_hand RUNTIME_ RUNTIME_LOCAL_SIZE
      ;;
    torch_variables)
      export MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 # torch's own store, which we do not need
      by_hand '' LOCAL_WORLD_SIZE
      ;;
    master)
      # As on two machines, which share no folder: nothing says that the ranks are on one.
      local rank pids=()
      export MASTER_ADDR=localhost MASTER_PORT=$((20000 + RANDOM % 10000)) RUNTIME_SECRET=of-this-job
      for rank in 1 0; do
        RANK=$rank WORLD_SIZE=2 timeout "$limit" "${train[@]}" "${two[@]}" --set comm.interface=lo \
          >"$work/$rank.out" 2>"$work/$rank.err" </dev/null &
        pids+=($!)
      done
      wait "${pids[0]}" && wait "${pids[1]}"
      ;;
    redis)
      need redis-server redis-server
      start_redis
      by_hand RUNTIME_ RUNTIME_LOCAL_SIZE --set comm.rendezvous=redis \
        --set "comm.rendezvous_address=127.0.0.1:$port"
      ;;
    pmix)
      need mpirun openmpi-bin
      mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's, which brings PMIx (Debian: openmpi-bin)"
      export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      timeout -k 5 "$limit" mpirun -n 2 --oversubscribe --bind-to none "${train[@]}" "${two[@]}" \
        --set comm.rendezvous=pmix >"$work/0.out" 2>"$work/0.err" </dev/null
      ;;
    torchrun)
      need_torchrun
      timeout -k 5 "$limit" torchrun --standalone --nproc_per_node 2 -r 1 -t 1 --log_dir "$work/torch" --no_python \
        "${train[@]}" "${two[@]}" >"$work/torch.out" 2>"$work/0.err" </dev/null
      cat "$work"/torch/*/*/0/stdout.log >"$work/0.out"
      ;;
    torchrun_hosts)
      # Two agents, as on two machines. The ranks meet in the agents' store, or with PyTorch 1.13, whose agents leave
      # MASTER_PORT to rank 0, in a store of rank 0.
      need_torchrun
      local node pids=() port=$((20000 + RANDOM % 10000))
      for node in 0 1; do
        timeout -k 5 "$limit" torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_id two \
          --rdzv_endpoint "localhost:$port" -r 1 -t 1 --log_dir "$work/torch$node" --no_python \
          "${train[@]}" "${two[@]}" --set comm.interface=lo >"$work/torch$node.out" 2>"$work/$node.err" </dev/null &
        pids+=($!)
      done
      wait "${pids[0]}" && wait "${pids[1]}"
      cat "$work"/torch[01]/*/*/0/stdout.log >"$work/0.out"
      ;;
    slurm)
      [ "${RUNTIME_TEST_SLURM:-0}" = 1 ] || skip "set RUNTIME_TEST_SLURM=1 to start a one-node Slurm (as root)"
      timeout -k 20 "$limit" "$source/tools/slurm/one_node.sh" srun --mpi=pmix -n 2 "${train[@]}" "${two[@]}" \
        --set comm.rendezvous=pmix >"$work/0.out" 2>"$work/0.err" </dev/null
      ;;
    *)
      echo "no such case: $kind"
      exit 2
      ;;
  esac
}

losses() { grep -o '"step":[0-9]*,.*"loss":[0-9.e+-]*' "$1" | sed 's/.*"step":\([0-9]*\),.*"loss":/\1 /'; }

timeout "$limit" "${train[@]}" --set "job.dump_folder=$work/one" >"$work/one.out" 2>"$work/one.err" </dev/null || {
  cat "$work/one.err"
  exit 1
}
code=0
run_two || code=$?
[ "$code" != 77 ] || exit 77
if [ "$code" != 0 ]; then
  tail -n 30 "$work"/*.err
  echo "two ranks ended with $code, expected 0"
  exit 1
fi
losses "$work/one.out" >"$work/one.losses"
losses "$work/0.out" >"$work/two.losses"
paste "$work/one.losses" "$work/two.losses" | awk '
  { difference = $2 - $4; if (difference < 0) difference = -difference; if (difference > largest) largest = difference
    if ($1 != $3 || difference > 1e-5 * ($2 > 1 ? $2 : 1)) bad = 1 }
  END { printf "%d steps, largest difference of the loss %g, expected 20 and within 1e-5\n", NR, largest
        exit bad || NR != 20 }'
