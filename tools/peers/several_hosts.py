#!/usr/bin/env python3
"""Measures two ranks on two hosts with a slow link between them: runtime with Gloo and MPI, with and without overlap,
compared with PyTorch's DistributedDataParallel with Gloo. The hosts are network namespaces of this machine, joined by a
bridge, with a token-bucket limit at both ends; each rank has one core and one thread. Needs root (ip, tc). Leaves no
namespace and no process behind.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

import measure

ADDRESSES = [f"10.213.77.{host + 1}" for host in range(8)]
BATCH = {"lenet": 512, "mlp": 4096, "resnet18": 192}  # global batches for which communication takes about half of a step
BENCH_FOLDER = os.path.join(measure.ROOT, "tools", "peers")


class Hosts:
    """Namespaces with the first of the addresses above, joined by a bridge in one more. They are removed at the end, with
    all processes in them.
    """

    def __init__(self, mbit, burst_kib, count=2):
        self.switch = f"rt{os.getpid()}-net"
        self.names = [f"rt{os.getpid()}-{i}" for i in range(count)]
        self.mbit, self.burst_kib = mbit, burst_kib

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for port, (name, address) in enumerate(zip(self.names, ADDRESSES)):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "add", "link0", "type", "veth", "peer", "name", f"port{port}", "netns", self.switch)
            ip("-n", self.switch, "link", "set", f"port{port}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{address}/24", "dev", "link0")
            ip("-n", name, "link", "set", "link0", "up")
            checked(["tc", "-n", name, "qdisc", "add", "dev", "link0", "root", "tbf", "rate", f"{self.mbit}mbit",
                     "burst", f"{self.burst_kib}kb", "latency", "50ms"])

    def __exit__(self, *_):
        for name in [*self.names, self.switch]:
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in inside.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)


def checked(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"'{' '.join(command)}' ended with {done.returncode}: {done.stderr.strip()}; expected 0. It needs root, "
                 "iproute2 and a kernel with veth and sch_tbf")


def ip(*words):
    checked(["ip", *words])


def on_host(hosts, rank):
    """The prefix that runs a command in the namespace of a rank, with a host name of its own (Open MPI compares host
    names), on one core.
    """
    core = sorted(os.sched_getaffinity(0))[rank]
    return ["ip", "netns", "exec", hosts.names[rank], "unshare", "--uts", "sh", "-c",
            f'hostname host{rank}; exec taskset -c {core} "$@"', "sh"]


def run_all(commands, environments, limit):
    """Runs the commands at the same time and returns the last JSON line that they print. Kills all of them if one fails
    or after `limit` seconds.
    """
    with tempfile.TemporaryFile("w+") as errors:
        children = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=measure.ROOT,
                                     start_new_session=True, env={**os.environ, **e})
                    for c, e in zip(commands, environments)]
        try:
            outputs = [c.communicate(timeout=limit)[0] for c in children]
        except subprocess.TimeoutExpired:
            outputs = []
        finally:
            for child in children:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        lines = [line for output in outputs for line in output.splitlines() if line.startswith("{")]
        if not lines or any(c.returncode for c in children):
            errors.seek(0)
            sys.exit(f"'{' '.join(commands[0])}' ended with {[c.returncode for c in children]} within {limit} s, expected "
                     f"0 and a result:\n{errors.read()}")
    return json.loads(lines[-1])


def bench(arguments, model, backend, overlap):
    return measure.bench_command(arguments, model, arguments.steps) + [
        "--set", f"comm.backend={backend}", "--set", f"comm.overlap={str(overlap).lower()}", "--set",
        f"training.global_batch_size={arguments.batch or BATCH[model]}", "--set", "comm.timeout_s=60"] + [
            word for setting in arguments.set for word in ("--set", setting)]


def run_gloo(arguments, hosts, model, overlap):
    with tempfile.TemporaryDirectory() as folder:
        commands = [on_host(hosts, rank) + bench(arguments, model, "gloo", overlap) +
                    ["--set", f"comm.interface={ADDRESSES[rank]}", "--set", "comm.rendezvous=file", "--set",
                     f"comm.rendezvous_address={folder}"] for rank in range(2)]
        return run_all(commands, [{"RUNTIME_RANK": str(r), "RUNTIME_WORLD_SIZE": "2"} for r in range(2)],
                       arguments.limit)


def run_mpi(arguments, hosts, model, overlap):
    """Starts mpirun in the first namespace, with an agent in place of ssh that enters the second. The daemon of a host
    shares the core of its rank.
    """
    with tempfile.TemporaryDirectory() as folder:
        agent = os.path.join(folder, "agent")
        with open(agent, "w", encoding="utf-8") as f:
            prefix = " ".join(f"'{word}'" for word in on_host(hosts, 1))
            f.write(f'#!/bin/sh\nshift\nexec {prefix} sh -c "$*"\n')
        os.chmod(agent, 0o755)
        network = f"{ADDRESSES[0]}/24"
        mpirun = ["mpirun.openmpi", "--host", ",".join(ADDRESSES[:2]), "-n", "2", "--bind-to", "none"]
        for key, value in (("plm_rsh_agent", agent), ("btl", "tcp,self"), ("pml", "ob1"), ("btl_tcp_if_include", network),
                           ("oob_tcp_if_include", network)):
            mpirun += ["--mca", key, value]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = on_host(hosts, 0) + mpirun + ["-x", "OMP_WAIT_POLICY"] + bench(arguments, model, "mpi", overlap)
        return run_all([command], [environment], arguments.limit)


def run_pytorch(arguments, hosts, model, layout):
    commands = [on_host(hosts, rank) +
                [arguments.python, os.path.join(BENCH_FOLDER, "pytorch_ddp.py"), model, "--layout", layout, "--batch",
                 str(arguments.batch or BATCH[model]), "--steps", str(arguments.steps)] for rank in range(2)]
    environments = [{"RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500",
                     "GLOO_SOCKET_IFNAME": "link0", **pytorch_blas(arguments)} for r in range(2)]
    return run_all(commands, environments, arguments.limit)


def pytorch_blas(arguments):
    return {"LD_LIBRARY_PATH": os.path.abspath(arguments.blas)} if arguments.blas else {}


def contenders(arguments, hosts, model):
    result = {}
    for backend, function in (("gloo", run_gloo), ("mpi", run_mpi)):
        if backend in arguments.backends:
            for overlap in (True, False):
                result[f"{backend}, overlap {'on' if overlap else 'off'}"] = (
                    lambda f=function, o=overlap: f(arguments, hosts, model, o))
    if "pytorch" in arguments.backends:
        for layout in ("nchw",) if model == "mlp" else ("nchw", "nhwc"):
            result[f"PyTorch {layout.upper()}"] = lambda l=layout: run_pytorch(arguments, hosts, model, l)
    return result


def summary(rounds):
    """The medians over the rounds of one contender."""
    figures = {"step_ms": statistics.median(r["step_ms_median"] for r in rounds)}
    for key in ("t_comp_ms", "t_sync_ms", "exposed_t_sync_ms"):
        if "scaling" in rounds[0]:
            figures[key] = statistics.median(r["scaling"][key] for r in rounds)
    return figures


def report(model, figures):
    pytorch = [f["step_ms"] for name, f in figures.items() if name.startswith("PyTorch")]
    print(f"{'model':<9} {'contender':<18} {'step ms':>9} {'T_comp':>9} {'T_sync':>9} {'exposed':>9}  PyTorch takes")
    for name, f in figures.items():
        cells = " ".join(f"{f[k]:9.1f}" if k in f else " " * 9 for k in ("t_comp_ms", "t_sync_ms", "exposed_t_sync_ms"))
        times = f"{min(pytorch) / f['step_ms']:.2f}x" if pytorch else ""
        print(f"{model:<9} {name:<18} {f['step_ms']:9.1f} {cells}  {times}")
    for backend in ("gloo", "mpi"):
        if f"{backend}, overlap on" in figures:
            on, off = (figures[f"{backend}, overlap {w}"]["exposed_t_sync_ms"] for w in ("on", "off"))
            print(f"{model:<9} {backend}: exposed communication {1 - on / off:.0%} smaller with overlap")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(BATCH))
    parser.set_defaults(threads=1, models=["lenet", "resnet18"])
    parser.add_argument("--backends", nargs="+", choices=("gloo", "mpi", "pytorch"), default=["gloo", "mpi", "pytorch"])
    parser.add_argument("--batch", type=int, help="of both ranks; default: " + str(BATCH))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--burst-kib", type=int, default=64, help="of the token bucket")
    parser.add_argument("--limit", type=int, default=180, help="seconds for one run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for runtime, e.g. comm.bucket_mb=1")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that has torch")
    parser.add_argument("--blas", metavar="FOLDER", help="folder with a libblas.so.3 for PyTorch")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit(f"user id {os.geteuid()}, expected 0: network namespaces need root; start this as root")
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("one core, expected two: each rank needs one of its own")
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    figures = {}
    with Hosts(arguments.mbit, arguments.burst_kib) as hosts:
        for model in arguments.models:
            runs = contenders(arguments, hosts, model)
            rounds = {name: [] for name in runs}
            for _ in range(arguments.rounds):
                for name, run in runs.items():
                    rounds[name].append(run())
            figures[model] = {name: summary(r) for name, r in rounds.items()}
            report(model, figures[model])
    measure.write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
