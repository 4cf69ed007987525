#!/usr/bin/env python3
"""Kills, damages and moves runs of `runtime train`, and compares what `--resume auto` makes of them.

    resume.py kills --ranks N [--comm NAME] [--mesh KEY=VALUE ...] --kills K [--while-writing [W]] [--slow LIBRARY]
                        as if it had never been killed: the same bits; W of the kills while a checkpoint is written; on a slow disk
    resume.py asynchronous [--ranks N] [--comm NAME] --kills K   ranks that do not wait for each other: they end, and have learned
    resume.py meshes    saved by four ranks, resumed by one, two and eight in float64: the losses of one uninterrupted run
    resume.py damage    a bit flipped in each file: the checkpoint is passed over, and the one before is taken
    resume.py disk      a full disk and a folder that cannot be written: a warning, and exit code 5 at the end
    resume.py signals   SIGTERM, SIGHUP and SIGINT save; a rank that dies is started again and goes on
    resume.py machines  ranks that see different folders train as if there were no checkpoints
    resume.py commands  checkpoint info, verify, export and reshard

All of them need --runtime; --seed (default: 1) draws the moments. Prints what was done, and exits with 1 at the first difference."""

import argparse
import contextlib
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIGURATION = """
[model]
input = [1, 12, 12]
layers = [
  { type = "conv2d", channels = 8, kernel = 3, padding = 1 },
  { type = "batch_norm", activation = "relu" },
  { type = "max_pool2d", kernel = 2 },
  { type = "flatten" },
  { type = "dropout", probability = 0.1 },
  { type = "linear", features = 64, activation = "tanh" },
  { type = "linear", features = 10 },
]
[dataset]
name = "synthetic"
samples = 500
classes = 10
[training]
global_batch_size = 32
steps = 200
[optimizer]
name = "adamw"
lr = 0.002
[metrics]
log_every_steps = 1
[checkpoint]
interval_steps = 5
interval_minutes = 0
"""


class Difference(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Difference(text)


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Runs:
    """Starts runs in a folder of their own."""

    def __init__(self, runtime, folder, settings=()):
        self.runtime, self.folder, self.settings, self.environment = runtime, folder, list(settings), {}
        self.configuration = os.path.join(folder, "run.toml")
        with open(self.configuration, "w", encoding="utf-8") as f:
            f.write(CONFIGURATION)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, run, *arguments, cache="cache", limit=None):
        """Starts training into the folder `run`; limit(): called in the new process."""
        command = [self.runtime, "train", self.configuration, "--set", f"job.dump_folder={self.path(run)}", *self.settings,
                   *arguments]
        environment = {**os.environ, "XDG_CACHE_HOME": self.path(cache), **self.environment}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True, preexec_fn=limit)

    def train(self, run, *arguments, code=0, **options):
        process = self.start(run, *arguments, **options)
        out, err = process.communicate(timeout=300)
        expect(process.returncode == code, f"{run} {arguments}: exit code {process.returncode}, expected {code}\n{err}")
        return out + err

    def command(self, *arguments, code=0):
        done = subprocess.run([self.runtime, *arguments], capture_output=True, text=True, timeout=100, check=False)
        expect(done.returncode == code, f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stderr}")
        return done.stdout + done.stderr

    def checkpoints(self, run):
        """The folders of whole checkpoints, the newest first."""
        return sorted(glob.glob(self.path(run, "checkpoints", "step-*")), reverse=True)

    def weights(self, run):
        return read(self.path(run, "weights.safetensors"))

    def losses(self, run):
        """{step: loss} of metrics.jsonl, whose steps must ascend."""
        found = {}
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as f:
            for line in map(json.loads, f):
                expect(line["step"] not in found, f"{run}: step {line['step']} has two lines")
                expect(not found or line["step"] > max(found), f"{run}: step {line['step']} is out of order")
                found[line["step"]] = line["loss"]
        return found


def step_of(checkpoint):
    return int(os.path.basename(checkpoint)[len("step-"):])


def last_step(metrics):
    """The step of the last whole line of metrics.jsonl; 0 without one."""
    try:
        return json.loads(read(metrics).rsplit(b"\n", 2)[-2])["step"]
    except (OSError, IndexError, ValueError):
        return 0


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()


def keep_decisions(checkpoint, folder):
    """Writes the decisions of a checkpoint where runs find them: a busy machine keeps none."""
    os.makedirs(folder, exist_ok=True)
    for decisions in glob.glob(os.path.join(checkpoint, "rank-*.decisions.json")):
        for name, text in json.loads(read(decisions)).items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)


def kills(runs, arguments):
    """Each run is killed at random moments until it ends by itself. It begins with the decisions of the uninterrupted run;
    every resume has an empty cache, so that decisions can only come from the checkpoint."""
    runs.train("whole", cache="warm")
    keep_decisions(runs.checkpoints("whole")[0], runs.path("warm", "runtime"))
    shutil.rmtree(runs.path("whole"))
    if arguments.slow:
        runs.environment = {"LD_PRELOAD": os.path.abspath(arguments.slow), "SLOW_DISK_MS": "10"}
    begin = time.monotonic()
    runs.train("whole", cache="warm")
    seconds = time.monotonic() - begin
    weights, losses = runs.weights("whole"), runs.losses("whole")
    count = resumed = writing = whole_runs = put_off = 0
    while count < arguments.kills or writing < (arguments.while_writing or 0):
        shutil.rmtree(runs.path("run"), ignore_errors=True)
        for attempt in range(40):
            begun = bool(runs.checkpoints("run"))
            shutil.rmtree(runs.path("cache"), ignore_errors=True)
            if not begun:
                shutil.copytree(runs.path("warm"), runs.path("cache"))
            process = runs.start("run", "--resume", "auto")
            try:
                _, err = process.communicate(timeout=random.uniform(0.1, 1.1 * seconds) if attempt < 20 else 100)
            except subprocess.TimeoutExpired:
                if arguments.while_writing is not None and random.random() < 0.7:  # waits for the next write, at most a second
                    end = time.monotonic() + 1
                    while time.monotonic() < end and not glob.glob(runs.path("run", "checkpoints", ".step-*.tmp")):
                        pass
                writing += bool(glob.glob(runs.path("run", "checkpoints", ".step-*.tmp")))
                put_off += " waits for the one of step " in kill(process)[1]
                count += 1
                continue
            expect(process.returncode == 0, f"exit code {process.returncode}\n{err}")
            expect(("resumed from" in err) == begun, f"there were {'some' if begun else 'no'} checkpoints\n{err}")
            resumed += begun
            break
        whole_runs += 1
        expect(runs.weights("run") == weights, "the weights differ from those of the uninterrupted run")
        expect(runs.losses("run") == losses, "metrics.jsonl differs from that of the uninterrupted run")
    expect(put_off > 0 or not arguments.slow, "no checkpoint was put off")
    print(f"{count} kills, {writing} of them while a checkpoint was written, {put_off} after one was put off, in {whole_runs} runs, of "
          f"which {resumed} ended after a resume; all weights and losses have the bits of the uninterrupted run")


def asynchronous(runs, arguments):
    """Nothing promises the bits of another run, because the order of updates depends on timing."""
    runs.settings += ["--set", "parallelism.update=asynchronous", "--set", "parallelism.max_staleness=2"]
    begin = time.monotonic()
    runs.train("whole")
    seconds = time.monotonic() - begin
    resumed = 0
    for _ in range(arguments.kills):
        before = [step_of(c) for c in runs.checkpoints("run")[:1]]
        process = runs.start("run", "--resume", "auto")
        try:
            process.communicate(timeout=random.uniform(0.3, 0.8) * seconds)
        except subprocess.TimeoutExpired:
            kill(process)
        else:
            expect(process.returncode == 0, f"exit code {process.returncode}")
        after = [step_of(c) for c in runs.checkpoints("run")[:1]]
        expect(after >= before, f"the newest checkpoint is of step {after}, before it was {before}")
        resumed += bool(before)
    text = runs.train("run", "--resume", "auto")
    expect("resumed from" in text, f"the run began again\n{text}")
    expect(step_of(runs.checkpoints("run")[0]) == 200, f"ended at {runs.checkpoints('run')[0]}")
    losses, first = runs.losses("run"), runs.losses("whole")
    expect(max(losses) == 200, f"the last line is of step {max(losses)}")
    begun, ended = (sum(values) / len(values) for values in (list(first.values())[:5], list(losses.values())[-5:]))
    expect(ended < 0.5 * begun, f"the loss was {begun:.3f} at first and is {ended:.3f}")
    print(f"{arguments.kills} kills, {resumed} of runs that had been resumed; the last resume ended at step 200, loss {ended:.3f}")
    if arguments.comm == "gloo":  # ranks of `local` are threads of one process
        kill_a_rank(runs, "restarts", ["--set", "training.steps=1000", "--max-restarts", "3"])
        expect(step_of(runs.checkpoints("restarts")[0]) == 1000, f"ended at {runs.checkpoints('restarts')[0]}")
        print("a rank that was killed was started again, and the job went on to its end")


def meshes(runs, _):
    """The reference device in float64, on which the number of ranks changes the order of sums only. In a pipeline batch_norm
    normalises over micro-batches, so pipelines have none."""
    runs.settings += ["--set", "device.backend=reference", "--set", "training.dtype=float64", "--set", "training.steps=24",
                      "--set", "parallelism.sync_batch_norm=true", "--set", "comm.backend=local", "--set",
                      "dataset.samples=256"]
    four = ["--nproc", "4", "--set", "parallelism.zero_stage=2", "--set", "parallelism.tensor=2"]
    pipeline = ["--nproc", "4", "--set", "parallelism.pipeline=2", "--set", "parallelism.zero_stage=1"]
    ways = [("four", four), ("one", []), ("two", ["--nproc", "2"]), ("eight", ["--nproc", "8"]),
            ("zero3", ["--nproc", "2", "--set", "parallelism.zero_stage=3"]),
            ("copies", ["--nproc", "4", "--set", "parallelism.zero_stage=3", "--set", "parallelism.zero_ranks=2"])]
    worst = max(resume_meshes(runs, "", four, ways),
                resume_meshes(runs, "plain-", pipeline, [("pipeline", pipeline), ("one", []), ("four", four)]))
    print(f"saved by 2 x 2 ranks, ZeRO 2 and pipeline, resumed by 1, 2, 4 and 8 of other meshes: losses within {worst:.1e}")


def resume_meshes(runs, prefix, saving, ways):
    """Returns the worst difference of a loss to one rank's."""
    if prefix:
        with open(runs.configuration, "w", encoding="utf-8") as f:
            f.write("".join(line for line in CONFIGURATION.splitlines(True) if "batch_norm" not in line))
    whole, saved = prefix + "whole", prefix + "saved"
    runs.train(whole)
    expected = runs.losses(whole)
    runs.train(saved, *saving, "--max-steps", "10")
    worst = 0
    for name, way in ways:
        text = runs.train(prefix + name, *way, "--resume", runs.path(saved))
        expect("saved after step 10" in text, text)
        losses = runs.losses(prefix + name)
        expect(sorted(losses) == list(range(11, 25)), f"{name}: steps {sorted(losses)}")
        difference = max(abs(losses[step] - expected[step]) for step in losses)
        expect(difference < 1e-9, f"{name}: the losses differ by {difference}")
        worst = max(worst, difference)
        # And back to one rank, from what that mesh has saved.
        runs.train(prefix + "back-" + name, "--resume", runs.path(prefix + name), "--set", "training.steps=25")
    return worst


def damage(runs, _):
    runs.train("whole", "--set", "training.steps=20")
    newest, before = runs.checkpoints("whole")
    weights = runs.weights("whole")
    for path in sorted(os.listdir(newest)):
        good = read(os.path.join(newest, path))
        for kind in ("flip", "cut", "gone"):
            bad = bytearray(good)
            bad[random.randrange(len(bad))] ^= 1 << random.randrange(8)
            if kind == "cut":
                bad = good[:random.randrange(len(good))]
            os.remove(os.path.join(newest, path))
            if kind != "gone":
                with open(os.path.join(newest, path), "wb") as f:
                    f.write(bad)
            copy = runs.path("copy")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(runs.path("whole"), copy)
            runs.command("checkpoint", "verify", copy, code=5)
            text = runs.train("other", "--resume", copy + "/checkpoints/" + os.path.basename(newest), code=5)
            expect("error: " in text, text)
            text = runs.train("copy", "--resume", "auto", "--set", "training.steps=20")
            expect("passed over" in text and os.path.basename(before) + ", saved after" in text, text)
            expect(runs.weights("copy") == weights, f"{path} {kind}: the weights differ")
            with open(os.path.join(newest, path), "wb") as f:
                f.write(good)
    # A run is named whose newest checkpoint is damaged; and one that has no whole one.
    shutil.rmtree(copy)
    shutil.copytree(runs.path("whole"), copy)
    for path in runs.checkpoints("copy"):
        os.remove(os.path.join(path, "rank-0.safetensors"))
        if path == runs.checkpoints("copy")[0]:
            text = runs.train("copy", "--resume", copy, "--set", "training.steps=21")
            expect(os.path.basename(before) + ", saved after" in text, text)
            shutil.rmtree(copy)
            shutil.copytree(runs.path("whole"), copy)
            os.remove(os.path.join(path, "rank-0.safetensors"))
    text = runs.train("copy", "--resume", "auto", code=5)
    expect("none of the checkpoints is whole" in text, text)
    expect(runs.weights("copy") == weights and len(runs.losses("copy")) == 20, "the files of the run have changed")
    print("a flipped bit, a cut and a missing file are found in each of the files of a checkpoint, and the one before is taken")


def disk(runs, _):
    import resource

    def no_large_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

    text = runs.train("full", "--set", "training.steps=20", code=5, limit=no_large_files)
    expect("warning: the checkpoint of step 5 was not saved" in text and "ulimit -f" in text, text)
    expect(not runs.checkpoints("full"), "there is a checkpoint")
    runs.train("part", "--set", "training.steps=20", "--max-steps", "5")
    text = runs.train("part", "--set", "training.steps=20", "--resume", "auto", code=5, limit=no_large_files)
    expect("warning: the checkpoint of step 10 was not saved" in text, text)
    expect([os.path.basename(path) for path in runs.checkpoints("part")] == ["step-000000005"], "the checkpoint is gone")
    expect("whole" in runs.command("checkpoint", "verify", runs.path("part")), "it is damaged")
    # A file in the place of the folder stops root, too.
    process = runs.start("blocked", "--set", "training.steps=600")
    while process.poll() is None and not runs.checkpoints("blocked"):
        time.sleep(0.01)
    while not os.path.isfile(runs.path("blocked", "checkpoints")):  # the run may make the folder again in between
        os.rename(runs.path("blocked", "checkpoints"), runs.path("blocked", f"aside{time.monotonic_ns()}"))
        with contextlib.suppress(IsADirectoryError), open(runs.path("blocked", "checkpoints"), "w", encoding="utf-8"):
            pass
    _, err = process.communicate(timeout=120)
    expect(process.returncode == 5, f"exit code {process.returncode}\n{err}")
    expect("was not saved: cannot write" in err and "the weights are saved" in err, err)
    expect(len(runs.weights("blocked")) > 1000, "there are no weights")
    print("a disk without room and a folder that cannot be made give warnings, exit code 5 at the end, and lose nothing")


def kill_a_rank(runs, run, settings):
    """A rank is killed behind a checkpoint; the launcher starts all again, and they go on to the end."""
    process = runs.start(run, *settings)
    while process.poll() is None and not runs.checkpoints(run):
        time.sleep(0.01)
    ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(random.choice(ranks)), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    expect(process.returncode == 0, f"exit code {process.returncode}\n{out}{err}")
    expect("resumed from " + runs.path(run) in out + err, out + err)


def signals(runs, _):
    long = ["--set", "training.steps=1000000", "--set", "checkpoint.interval_steps=1000000"]
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        process = runs.start(name, *long)
        while process.poll() is None and not os.path.exists(runs.path(name, "metrics.jsonl")):
            time.sleep(0.01)
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=30)
        seconds = time.monotonic() - begin
        expect(process.returncode == 128 + getattr(signal, name), f"exit code {process.returncode}\n{err}")
        step = os.path.basename(runs.checkpoints(name)[0])
        expect(f"after step {int(step[5:])}" in err, err)
        text = runs.train(name, *long, "--resume", "auto", "--max-steps", str(int(step[5:]) + 3))
        expect(f"saved after step {int(step[5:])}" in text, text)
        print(f"{name}: saved and ended in {seconds:.2f} s")
    # Ranks ask each other for signals as often after a resume as before.
    ranks = ["--nproc", "2", "--set", "comm.backend=gloo", "--resume", "auto", *long]
    for attempt in range(2):
        process = runs.start("again", *ranks)
        before = step_of(runs.checkpoints("again")[0]) if attempt else 0
        while process.poll() is None and last_step(runs.path("again", "metrics.jsonl")) < before + 1500:
            time.sleep(0.01)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        expect(process.returncode == 143, f"exit code {process.returncode}\n{err}")
        expect(time.monotonic() - begin < 5, f"the ranks went on for {time.monotonic() - begin:.1f} s")
    settings = ["--set", "training.steps=1000", "--nproc", "2", "--set", "comm.backend=gloo", "--set", "comm.timeout_s=20",
                "--max-restarts", "3", "--set", "device.tune=off"]
    runs.train("whole", *settings)
    kill_a_rank(runs, "restarts", settings)
    expect(runs.weights("restarts") == runs.weights("whole"), "the weights differ after a restart")
    # Also a run that has begun with a checkpoint of another one.
    runs.train("begun", *settings, "--max-steps", "50")
    kill_a_rank(runs, "fork", settings + ["--resume", runs.path("begun")])
    expect(runs.weights("fork") == runs.weights("whole"), "the weights differ after a restart")
    runs.losses("fork")
    print("a rank that was killed was started again and went on; the weights have the bits of the uninterrupted run")


def machines(runs, _):
    """Two ranks in two working folders, whose relative run folders are therefore two: rank 0 saves for both."""
    processes = []
    for rank in range(2):
        os.makedirs(runs.path(f"machine{rank}"))
        command = [runs.runtime, "train", runs.configuration, "--set", "job.dump_folder=run", "--set", "comm.backend=gloo", "--set",
                   "comm.rendezvous=file", "--set", "comm.rendezvous_address=" + runs.path("meeting"), "--max-steps", "12"]
        environment = {**os.environ, "RUNTIME_RANK": str(rank), "RUNTIME_WORLD_SIZE": "2", "XDG_CACHE_HOME": runs.path("cache")}
        processes.append(subprocess.Popen(command, cwd=runs.path(f"machine{rank}"), env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, err = process.communicate(timeout=120)
        expect(process.returncode == 0, f"exit code {process.returncode}\n{err}")
        expect(process is processes[1] or "so that rank 0 saves the run there for all of them" in err, err)
    expect(os.path.exists(runs.path("machine0", "run", "weights.safetensors")), "there are no weights")
    expect(not os.path.exists(runs.path("machine1", "run")), "rank 1 has made a folder")
    os.remove(runs.path("machine0", "run", "weights.safetensors"))  # as if it had been killed before its end
    again = subprocess.run([runs.runtime, "train", runs.configuration, "--set", "job.dump_folder=run", "--resume", "auto"],
                           cwd=runs.path("machine0"), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    expect(again.returncode == 0 and "saved after step 12" in again.stdout, again.stdout)
    print("ranks without a common folder were saved by rank 0, and one rank has gone on from there")


def commands(runs, _):
    runs.settings += ["--set", "training.steps=12", "--set", "device.tune=off"]
    runs.train("run", "--nproc", "4", "--set", "comm.backend=local", "--set", "parallelism.tensor=2", "--set",
               "parallelism.zero_stage=1")
    info = runs.command("checkpoint", "info", runs.path("run"))
    expect("step 12, epoch 0" in info and "by 4 ranks (data 2, tensor 2, pipeline 1)" in info, info)
    runs.command("checkpoint", "export", runs.path("run"), "--output", runs.path("weights"))
    expect(read(runs.path("weights")) == runs.weights("run"), "the exported weights differ")
    runs.command("checkpoint", "reshard", runs.path("run"), "--output", runs.path("joined"))
    expect("whole" in runs.command("checkpoint", "verify", runs.path("joined")), "the joined checkpoint is damaged")
    for name in ("run", "joined"):
        runs.train("from-" + name, "--resume", runs.path(name), "--set", "training.steps=20")
    expect(runs.weights("from-run") == runs.weights("from-joined"), "they go on in another way")
    runs.command("checkpoint", "info", runs.path("nothing"), code=5)
    text = runs.train("from-run", code=2)
    expect("holds weights.safetensors of an earlier run" in text, text)
    text = runs.train("other", "--resume", runs.path("run"), "--set", "training.global_batch_size=16", code=5)
    expect("training.global_batch_size is 16; in the checkpoint it is 32" in text, text)
    # The newest run of a configuration is found where nobody has named its folder.
    os.makedirs(runs.path("elsewhere"))
    os.chdir(runs.path("elsewhere"))
    runs.settings += ["--set", "job.dump_folder=''"]
    runs.train("", "--max-steps", "6")
    text = runs.train("", "--resume", "auto")
    expect("saved after step 6" in text, text)
    expect(len(os.listdir("outputs/run")) == 1, "a second folder was made")
    print("info, verify, export and reshard agree with the run; other configurations are refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = {f.__name__: f for f in (kills, asynchronous, meshes, damage, disk, signals, machines, commands)}
    parser.add_argument("case", choices=cases)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--comm", default="local")
    parser.add_argument("--mesh", action="append", default=[])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--while-writing", type=int, nargs="?", const=0,
                        help="most kills wait until a checkpoint is being written, and at least so many find one")
    parser.add_argument("--slow", help="library to preload, which makes the disk slow (slow_disk.c)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    settings = []
    if arguments.ranks > 1:
        settings = ["--nproc", str(arguments.ranks), "--set", "comm.backend=" + arguments.comm]
        for item in arguments.mesh:
            settings += ["--set", "parallelism." + item]
    with tempfile.TemporaryDirectory(prefix="runtime_resume_") as folder:
        try:
            cases[arguments.case](Runs(os.path.abspath(arguments.runtime), folder, settings), arguments)
        except Difference as difference:
            print(f"error: {arguments.case}, seed {arguments.seed}: {difference}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
