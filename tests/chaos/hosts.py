#!/usr/bin/env python3
"""Kills ranks of jobs whose hosts share no folder, at random moments, and checks that nothing is lost: the job goes on from its
newest checkpoint and ends with the bits of a job that was never killed.

    python3 tests/chaos/hosts.py --build build --seeds 1..100     # some 8 s for each seed

A line says for each seed: the mesh, the hosts, who was killed, and from which steps the job went on. Exit code 1: a file differs,
a checkpoint is not whole, a newer one was not used, or a rank did not end as it should.
"""
import argparse
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

MODEL = """
[model]
input = [3, 6, 6]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, padding = 1 },
  { type = "batch_norm", activation = "tanh" },
  { type = "flatten" },
  { type = "dropout", probability = 0.2 },
  { type = "linear", features = 8, activation = "tanh" },
  { type = "linear", features = 4 },
]
[dataset]
name = "synthetic"
samples = 80
classes = 4
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 10
[optimizer]
name = "adamw"
lr = 0.05
[checkpoint]
interval_minutes = 0
interval_steps = 2
keep_latest = 0
[metrics]
log_every_steps = 1
[comm]
backend = "gloo"
rendezvous = "tcp"
timeout_s = 10
init_timeout_s = 15
[device]
backend = "cpu"
tune = "off"
threads = 1
"""
RUN_S = 120
STEPS = 80


class Job:
    """A job whose rank i runs in the folder of host hosts[i]."""

    def __init__(self, runtime, folder, hosts, settings):
        self.runtime, self.folder, self.hosts, self.settings = runtime, folder, hosts, settings
        for host in set(hosts):
            os.makedirs(os.path.join(folder, host), exist_ok=True)
        with open(os.path.join(folder, "job.toml"), "w", encoding="utf-8") as file:
            file.write(MODEL)

    def run_folder(self):
        return os.path.join(self.folder, self.hosts[0], "run")

    def start(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [self.runtime, "train", os.path.join(self.folder, "job.toml"), "--resume", "auto", "--set", "job.dump_folder=run",
                 "--set", f"comm.rendezvous_address=tcp://127.0.0.1:{port}"]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        return [subprocess.Popen(words, cwd=os.path.join(self.folder, host), text=True, errors="replace", stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "HOME": self.folder, "RUNTIME_RANK": str(rank), "RUNTIME_LOCAL_RANK": str(self.hosts[:rank].count(host)),
                                      "RUNTIME_LOCAL_SIZE": str(self.hosts.count(host)),
                                      "RUNTIME_WORLD_SIZE": str(len(self.hosts))}) for rank, host in enumerate(self.hosts)]

    def checkpoints(self):
        folder = os.path.join(self.run_folder(), "checkpoints")
        return sorted(name for name in os.listdir(folder) if name.startswith("step-")) if os.path.isdir(folder) else []

    def newest(self):
        return int(self.checkpoints()[-1].split("-")[1]) if self.checkpoints() else 0

    def wait_for(self, step, processes):
        """Waits until the metrics have so many lines, or a rank has ended."""
        path, end_s = os.path.join(self.run_folder(), "metrics.jsonl"), time.monotonic() + RUN_S
        while time.monotonic() < end_s and all(process.poll() is None for process in processes):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:  # a new run begins a new file
                if file.read().count(b'{"step"') >= step:
                    return
            time.sleep(0.001)

    def result(self):
        """The weights, and the lines of metrics.jsonl without times."""
        with open(os.path.join(self.run_folder(), "weights.safetensors"), "rb") as file:
            weights = file.read()
        with open(os.path.join(self.run_folder(), "metrics.jsonl"), encoding="utf-8") as file:
            lines = [{key: value for key, value in json.loads(line).items()
                      if not re.search(r"second|per_|joules|bytes|watts|device", key)} for line in file]
        return weights, lines


def end(processes):
    """Returns the exit code and the errors of each rank."""
    try:
        said = [process.communicate(timeout=RUN_S)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def draw_settings(draw):
    """Returns the number of ranks and the settings of a mesh."""
    tensor, pipeline = draw.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    data = draw.choice([1, 2]) if tensor * pipeline > 1 else draw.choice([2, 3, 4])
    zero = draw.choice([0, 1, 2, 3]) if data > 1 and pipeline == 1 else 0
    settings = {"parallelism.tensor": tensor, "parallelism.pipeline": pipeline, "parallelism.zero_stage": zero}
    if zero and data == 4 and draw.random() < 0.5:
        settings["parallelism.zero_ranks"] = 2
    if data == 3:
        settings["training.global_batch_size"] = 12
    return data * tensor * pipeline, settings


def run_seed(runtime, seed):
    """Returns (what the job was, what is wrong or "")."""
    draw = random.Random(seed)
    ranks, settings = draw_settings(draw)
    count = draw.randint(2, ranks)
    hosts = sorted([f"host{i}" for i in range(count)] + [f"host{draw.randrange(count)}" for _ in range(ranks - count)])
    name = ", ".join(f"{key.split('.')[1]} {value}" for key, value in settings.items()) + f", {ranks} ranks on {count} hosts"
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        whole = Job(runtime, os.path.join(folder, "whole"), hosts, settings)
        codes, said = end(whole.start())
        if any(codes):
            return name, f"undisturbed, the job ended with {codes}: {said[0][-300:]}"
        job = Job(runtime, os.path.join(folder, "killed"), hosts, settings)
        for _ in range(draw.randint(1, 3)):
            host = draw.choice(hosts)
            victims = draw.choice([[draw.randrange(ranks)], [i for i in range(ranks) if hosts[i] == host], list(range(ranks))])
            processes = job.start()
            job.wait_for(draw.randint(min(job.newest(), STEPS - 1), STEPS - 1), processes)
            time.sleep(draw.uniform(0, 0.02))
            for victim in victims:
                processes[victim].kill()
            codes, said = end(processes)
            killed = ",".join(str(victim) for victim in victims if codes[victim] == -9) or "nobody in time"
            name += f"; killed {killed}, saved {job.newest()}"
            if any(code not in (0, 4, -9) for code in codes):
                return name, f"exit codes {codes}: " + " | ".join(text[-300:] for text in said)
        newest = job.newest()
        codes, said = end(job.start())
        if any(codes):
            return name, f"going on ended with {codes}: " + " | ".join(text[-300:] for text in said)
        resumed = re.search(r"resumed from .*, saved after step (\d+)", said[0])
        if newest != (int(resumed.group(1)) if resumed else 0):
            return name, f"went on from {resumed and resumed.group(0)}, but step {newest} was saved"
        verified = subprocess.run([runtime, "checkpoint", "verify", job.run_folder()], capture_output=True, text=True, check=False)
        if verified.returncode:
            return name, f"a checkpoint is not whole: {verified.stdout[-300:]}{verified.stderr[-300:]}"
        if job.result() != whole.result():
            return name, "the weights or the metrics differ from those of the job that was not killed"
        if any(os.path.exists(os.path.join(job.folder, host, "run")) for host in hosts[hosts.count(hosts[0]):]):
            return name, "another host than rank 0's has files of the run"
        left = [file for _, _, files in os.walk(job.run_folder()) for file in files if file.endswith(".tmp")]
        return name, f"temporary files are left: {left}" if left else ""


def main():
    def span(text):
        first, _, last = text.partition("..")
        return int(first), int(last or first)

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", type=span, default=(1, 5), help="1..100")
    options = parser.parse_args()
    runtime = os.path.abspath(os.path.join(options.build, "bin", "runtime"))
    failed = 0
    for seed in range(options.seeds[0], options.seeds[1] + 1):
        name, wrong = run_seed(runtime, seed)
        failed += bool(wrong)
        print(f"seed {seed}: {name}: " + (f"WRONG: {wrong}" if wrong else "same bits"), flush=True)
    total = options.seeds[1] - options.seeds[0] + 1
    print(f"{total - failed} of {total} jobs lost nothing")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
