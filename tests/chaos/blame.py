#!/usr/bin/env python3
"""Kills, stops or delays a random rank of jobs with random meshes, and checks that the job names it, once, and how soon.

    python3 tests/chaos/blame.py --build build --seeds 1..300 --ranks 8..64     # some 10 s for each seed

A line says for each seed: the mesh, the fault, the rank, and the seconds until it was named. Exit code 1: a job named another
rank or none, said it more than once, or did not end as it should.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from chaos_run import process_of_rank

LAYERS, WIDTH = 8, 64
HANG_S, TIMEOUT_S = 1.0, 5.0
START_S, END_S = 90, 60


def configuration():
    linear = '{ type = "linear", features = %d, activation = "relu" }' % WIDTH
    return f"""
[model]
input = [{WIDTH}]
layers = [ {", ".join([linear] * (LAYERS - 1))}, {{ type = "linear", features = 8 }} ]
[dataset]
name = "synthetic"
samples = 8192
classes = 8
[training]
epochs = 1000000
[validation]
every_epochs = 0
[device]
backend = "reference"
[metrics]
log_every_steps = 2
[checkpoint]
interval_minutes = 0
"""


def draw_mesh(draw, least, most):
    """Returns (data, tensor, pipeline), whose product lies between the limits."""
    while True:
        mesh = (draw.choice([1, 2, 3, 4, 6, 8, 16, 32, 64]), draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 1, 2, 4]))
        if least <= mesh[0] * mesh[1] * mesh[2] <= most:
            return mesh


class Output:
    """The lines of a process on its two outputs, each with its time."""

    def __init__(self, process):
        self.lines, self.changed = [], threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=(stream, kind), daemon=True)
                        for stream, kind in ((process.stdout, "out"), (process.stderr, "err"))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, kind):
        for line in stream:
            with self.changed:
                self.lines.append((time.monotonic(), kind, line.rstrip("\n")))
                self.changed.notify_all()

    def wait_for(self, pattern, seconds, count=1):
        """Returns whether so many lines with the pattern have come."""
        with self.changed:
            return self.changed.wait_for(lambda: sum(bool(re.search(pattern, text)) for _, _, text in self.lines) >= count,
                                         seconds)

    def all_with(self, pattern):
        return [(when, text) for when, kind, text in self.lines if kind == "err" and re.search(pattern, text)]


def first_seconds(lines, since):
    return min(when for when, _ in lines) - since if lines else None


def judge(fault, victim, output, code, since):
    """Returns (what is wrong or "", seconds until the rank was named)."""
    # These lines accuse a rank; "rank 3 of 8 is lost", "rank 3 (pid 7) was killed", ...
    accuses = r"(?:ranks wait: |ended because |error: (?!rank \d+ \(pid \d+\) ended with exit code 4))(?:rank|ranks) (\d+)\b"
    accused = [(when, int(re.search(accuses, text).group(1)), text) for when, text in output.all_with(accuses)]
    wrong = [text for _, rank, text in accused if rank != victim]
    named = first_seconds([(when, text) for when, rank, text in accused if rank == victim], since)
    diagnoses = [text for _, rank, text in accused if re.search(r"error: rank \d+ of \d+ ", text)]
    if wrong:
        return f"another rank is accused: {wrong[0][:200]}", named
    if named is None:
        return "the rank is not named", named
    if fault == "delay":
        return ("" if code == 143 else f"exit code {code}, expected 143"), named
    if code != 4:
        return f"exit code {code}, expected 4", named
    if len(diagnoses) > 1:
        return f"{len(diagnoses)} ranks say the diagnosis: {diagnoses[1][:200]}", named
    if fault == "stop" and not output.all_with(r"the ranks wait: "):
        return "no line says that the ranks wait", named
    calls = "all_reduce|reduce_scatter|all_gather|broadcast|barrier|send|receive"
    if fault == "stop" and not output.all_with(rf"rank {victim} .*\b({calls}) #\d+"):
        return "the collective is not named", named
    return "", named


def run_seed(runtime, seed, least, most):
    draw = random.Random(seed)
    mesh = draw_mesh(draw, least, most)
    ranks = mesh[0] * mesh[1] * mesh[2]
    fault, victim = draw.choice(["kill", "stop", "delay"]), draw.randrange(ranks)
    with tempfile.TemporaryDirectory(prefix="blame-") as folder:
        with open(os.path.join(folder, "job.toml"), "w", encoding="utf-8") as file:
            file.write(configuration())
        words = [runtime, "train", "job.toml", "--nproc", str(ranks)]
        for key, value in {"job.dump_folder": "run", "comm.backend": "gloo", "comm.hang_s": HANG_S, "comm.timeout_s": TIMEOUT_S,
                           "comm.init_timeout_s": START_S, "metrics.progress": "lines", "parallelism.tensor": mesh[1],
                           "parallelism.pipeline": mesh[2], "training.global_batch_size": 4 * mesh[0] * mesh[2],
                           "parallelism.zero_stage": draw.choice([0, 0, 1, 2]) if mesh[0] > 1 else 0}.items():
            words += ["--set", f"{key}={value}"]
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env={**os.environ, "HOME": folder})
        output = Output(process)
        result, named = "", None
        try:
            if not output.wait_for(r'^\{"step":', START_S, draw.randint(1, 4)):
                result = "no step was reported"
            else:
                pid = process_of_rank(folder, victim)
                if pid is None:
                    raise subprocess.TimeoutExpired(words, START_S)
                time.sleep(draw.uniform(0, 0.3))
                since = time.monotonic()
                os.kill(pid, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
                if fault == "delay":
                    output.wait_for(r"the ranks wait: ", TIMEOUT_S - 1)
                    os.kill(pid, signal.SIGCONT)
                    output.wait_for(r'^\{"step":', END_S, 1 + sum(t.startswith('{"step":') for _, _, t in output.lines))
                    process.send_signal(signal.SIGTERM)
                code = process.wait(END_S)
                for reader in output.readers:
                    reader.join(END_S)
                result, named = judge(fault, victim, output, code, since)
        except subprocess.TimeoutExpired:
            result = f"the job has not ended after {END_S} s"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if result:
        print("\n".join(text for _, kind, text in output.lines if kind == "err"), file=sys.stderr)
    return mesh, fault, victim, result, named


def main():
    def span(text):
        first, _, last = text.partition("..")
        return int(first), int(last or first)

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", type=span, default=(1, 5), help="1..300")
    parser.add_argument("--ranks", type=span, default=(8, 16), help="the least and the most of a job: 8..64")
    options = parser.parse_args()
    runtime = os.path.abspath(os.path.join(options.build, "bin", "runtime"))
    failed, seconds = 0, {"kill": [], "stop": [], "delay": []}
    for seed in range(options.seeds[0], options.seeds[1] + 1):
        mesh, fault, victim, result, named = run_seed(runtime, seed, *options.ranks)
        failed += bool(result)
        if named is not None:
            seconds[fault].append(named)
        name = "x".join(map(str, mesh))
        print(f"seed {seed}: {name} {fault} rank {victim}: " + (f"WRONG: {result}" if result else f"named after {named:.2f} s"),
              flush=True)
    total = options.seeds[1] - options.seeds[0] + 1
    print(f"{total - failed} of {total} jobs named the rank; the slowest after " +
          ", ".join(f"{max(list_of, default=0):.1f} s ({fault}, {len(list_of)})" for fault, list_of in seconds.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
