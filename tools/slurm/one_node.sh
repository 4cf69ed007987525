#!/usr/bin/env bash
# Starts a Slurm of one node (this machine), runs a command with it and stops it again: munged, slurmctld and slurmd run
# as root in a temporary folder. They use free ports, so an installed Slurm is not affected. The exit code is that of
# the command.
#
#   tools/slurm/one_node.sh srun -n 2 build/bin/runtime train configs/fashion_mnist_lenet.toml --max-steps 20
#   tools/slurm/one_node.sh srun --mpi=pmix -n 2 build/bin/runtime train ... --set comm.rendezvous=pmix
#
# ONE_NODE_LIMIT_S (default 300): seconds after which the command is ended. Debian packages: slurmctld slurmd
# slurm-client munge slurm-wlm-basic-plugins.
set -euo pipefail
limit=${ONE_NODE_LIMIT_S:-300}

fail() {
  echo "one_node.sh: $*" >&2
  exit 1
}

[ $# -gt 0 ] || fail "no command; for example: $0 srun -n 2 hostname"
[ "$(id -u)" = 0 ] || fail "user id $(id -u), expected 0: slurmd needs root; start this as root"
for program in munged slurmctld slurmd srun scontrol; do
  command -v "$program" >/dev/null ||
    fail "$program is not installed; apt-get install slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
done

folder=$(mktemp -d /tmp/one_node.XXXXXX)
chmod 755 "$folder"
daemons=()

# Ends all processes of this run: the daemons, and the job steps, whose SLURM_CONF lies in this folder.
# shellcheck disable=SC2317  # called by the trap below
finish() {
  trap - EXIT
  trap '' INT TERM HUP
  if scancel --user root >/dev/null 2>&1; then sleep 0.5; fi
  local pid pids=()
  for pid in "${daemons[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for _ in $(seq 50); do
    kill -0 "${daemons[@]}" 2>/dev/null || break
    sleep 0.1
  done
  for pid in /proc/[0-9]*; do
    pid=${pid#/proc/}
    if [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] && grep -qzs "^SLURM_CONF=$folder/" "/proc/$pid/environ"; then
      pids+=("$pid")
    fi
  done
  [ ${#daemons[@]} = 0 ] || kill -KILL "${daemons[@]}" 2>/dev/null || true
  [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Prints two ports on which no program listens.
free_ports() {
  local taken port found=0
  taken=$(ss -Htln | awk '{ sub(/.*:/, "", $4); print $4 }')
  while [ "$found" -lt 2 ]; do
    port=$((20000 + RANDOM % 10000))
    grep -qx "$port" <<<"$taken" || { echo "$port" && found=$((found + 1)); }
  done
}

# start <name> <command>...: starts a daemon in the background with its output in <name>.out. It inherits no open
# descriptor of this script but its output.
start() {
  local name=$1
  shift
  "$@" >"$folder/$name.out" 2>&1 </dev/null &
  daemons+=($!)
}

# wait_for <seconds> <what> <command>...: repeats the command until it succeeds; fails with the logs after that time.
wait_for() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ]; then
      tail -n 20 "$folder"/*.log "$folder"/*.out >&2 || true
      fail "$what did not answer in time; the logs are above"
    fi
    sleep 0.2
  done
}

mapfile -t ports < <(free_ports)
host=$(hostname -s)
mkdir -p "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 600 "$folder/munge.key"
memory=$(awk '/MemTotal/ { print int($2 / 1024 * 0.9) }' /proc/meminfo)
cat >"$folder/slurm.conf" <<CONF
ClusterName=one_node
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
CONF
export SLURM_CONF=$folder/slurm.conf

start munged munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
  --pid-file="$folder/munge.pid" --seed-file="$folder/munge.seed" --log-file="$folder/munged.log"
wait_for 10 munged test -S "$folder/munge.socket"
start slurmctld slurmctld -D -i -f "$SLURM_CONF"
wait_for 20 slurmctld scontrol ping
start slurmd slurmd -D -f "$SLURM_CONF"
# shellcheck disable=SC2317  # called by wait_for
idle() { sinfo --noheader --format=%T | grep -qx idle; }
wait_for 30 slurmd idle

code=0
timeout -k 10 "$limit" "$@" || code=$?
[ "$code" != 124 ] || echo "one_node.sh: the command did not end within $limit s (ONE_NODE_LIMIT_S)" >&2
exit "$code"
