#!/usr/bin/env python3
"""Compares the step that `runtime plan` predicts for a cluster with the measured one. The hosts are network namespaces of this
machine (see several_hosts.py) whose links are first measured with `runtime bench comm`; ranks are processes over Gloo
with one thread each. Ranks beyond the cores of this machine take these from each other, which no plan knows: the column
`cores` says so. Needs root (ip, tc).
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys

import measure
import several_hosts

CASES = ["2x1:lenet", "2x1:mlp", "2x1:gpt:training.global_batch_size=2", "2x1:mlp:parallelism.tensor=2",
         "2x1:gpt:training.global_batch_size=4:parallelism.pipeline=2:parallelism.microbatches=4",
         "2x2:lenet", "2x2:mlp", "2x2:mlp:parallelism.tensor=2", "4x1:lenet", "4x1:mlp", "4x2:lenet", "4x2:mlp"]
STEP = re.compile(r"T_comp ([\d.]+) ms \+ exposed T_sync ([\d.]+) ms = ([\d.]+) ms a step")


def settings(words):
    return [part for word in words for part in ("--set", word)]


def run_ranks(arguments, hosts, per_host, words):
    """Runs the program on each host, per_host ranks on each, and returns what rank 0 has printed."""
    ranks = len(hosts.names) * per_host
    children = []
    for rank in range(ranks):
        place = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank % per_host, "LOCAL_WORLD_SIZE": per_host,
                 "GROUP_RANK": rank // per_host, "MASTER_ADDR": several_hosts.ADDRESSES[0], "MASTER_PORT": 29500}
        command = ["ip", "netns", "exec", hosts.names[rank // per_host], os.path.join(arguments.bin, "runtime"), *words,
                   *settings(["comm.backend=gloo", "comm.interface=link0"])]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                         cwd=measure.ROOT, start_new_session=True,
                                         env={**os.environ, **{key: str(value) for key, value in place.items()}}))
    try:
        outputs = [child.communicate(timeout=arguments.limit)[0] for child in children]
    except subprocess.TimeoutExpired:
        outputs = [f"no end within {arguments.limit} s"]
    finally:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if any(child.returncode for child in children):
        sys.exit(f"'{' '.join(words)}' ended with {[child.returncode for child in children]}, expected 0: {outputs[0]}")
    return outputs[0]


def step_of(text, what):
    """Seconds of computing, of exposed communication and of a step."""
    found = STEP.search(text)
    if found is None:
        sys.exit(f"{what} has printed no step of several ranks: {text[-1000:]}")
    return [float(number) for number in found.groups()]


def network_of(arguments):
    """Latency in microseconds and Gbit/s between two hosts."""
    with several_hosts.Hosts(arguments.mbit, arguments.burst_kib) as hosts:
        text = run_ranks(arguments, hosts, 1, ["bench", "comm", "configs/bench_mlp.toml", "--collective", "all_reduce"])
    found = re.search(r"cluster.link_latency_us=(\S+) --set cluster.link_gbps=(\S+)", text)
    if found is None:
        sys.exit(f"bench comm has found no latency and bandwidth: {text[-1000:]}")
    return [float(number) for number in found.groups()]


def compare(arguments, network, case):
    shape, model, *keys = case.split(":")
    hosts, per_host = map(int, shape.split("x"))
    latency, gbps = network
    words = [f"configs/bench_{model}.toml", *settings(["device.threads=1", *keys])]
    cluster = settings(["comm.backend=gloo", f"cluster.nodes={hosts}", f"cluster.devices_per_node={per_host}",
                        f"cluster.network_latency_us={latency}", f"cluster.network_gbps={gbps}",
                        f"cluster.network_sharers={per_host}"])
    plan = subprocess.run([os.path.join(arguments.bin, "runtime"), "plan", *words, *cluster], capture_output=True,
                          text=True, check=True, cwd=measure.ROOT, env={**os.environ, "COLUMNS": "1000"})
    predicted = step_of(plan.stdout, "plan")
    rounds = []
    for _ in range(arguments.rounds):
        with several_hosts.Hosts(arguments.mbit, arguments.burst_kib, hosts) as network_hosts:
            rounds.append(step_of(run_ranks(arguments, network_hosts, per_host,
                                            ["bench", *words, "--steps", str(arguments.steps)]), "bench"))
    measured = [statistics.median(column) for column in zip(*rounds)]
    shared = "shared" if hosts * per_host > len(os.sched_getaffinity(0)) else "own"
    print(f"{shape:<6}{model:<7}{shared:<7}" + "".join(f"{x:9.1f}" for x in (*predicted, *measured)) +
          f"{predicted[2] / measured[2]:8.2f}  {' '.join(keys)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.path.join(measure.ROOT, "build", "bin"), help="folder of the programs")
    parser.add_argument("--cases", nargs="+", default=CASES, metavar="HOSTSxRANKS:MODEL[:KEY=VALUE...]")
    parser.add_argument("--mbit", type=int, default=500)
    parser.add_argument("--burst-kib", type=int, default=64, help="of the token bucket")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--limit", type=int, default=120, help="seconds for one run")
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    if os.geteuid() != 0:
        sys.exit(f"user id {os.geteuid()}, expected 0: network namespaces need root; start this as root")
    network = network_of(arguments)
    print(f"between two hosts: {network[0]} us, {network[1]} Gbit/s; milliseconds")
    print(f"{'hosts':<6}{'model':<7}{'cores':<7}" + "".join(
        f"{name:>9}" for name in ("T_comp", "exposed", "planned", "T_comp", "exposed", "step")) + f"{'ratio':>8}")
    for case in arguments.cases:
        compare(arguments, network, case)


if __name__ == "__main__":
    main()
