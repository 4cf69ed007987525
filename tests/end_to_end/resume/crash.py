#!/usr/bin/env python3
"""The machine stops at every moment of a run that saves itself: what the disk has then must hold a whole checkpoint, the newest
that was published, or the one that was being written.

    crash.py --runtime PROGRAM --recorder LIBRARY [--resumes N] [--seed S]

The recorder writes down every operation on the run's files. From that list the script makes what the disk may have after each
operation, by what POSIX promises: the data of a file are safe after fsync of the file, the names in a folder after fsync of the
folder. What is not yet safe is lost, or kept, or is there in part: names in the order of the operations up to any of them, data
up to half of what was written. `runtime checkpoint verify` reads every byte of the newest checkpoint of each such disk; of a few
of them training goes on to the end and must give the weights of the run that was not stopped."""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

CONFIGURATION = """
[model]
input = [4]
layers = [{ type = "linear", features = 6, activation = "tanh" }, { type = "linear", features = 3 }]
[dataset]
name = "synthetic"
samples = 80
classes = 3
validation_split = 0.2
[validation]
every_steps = 3  # each is the best so far, whose checkpoint waits for the one before
[training]
global_batch_size = 8
steps = 24
[optimizer]
name = "adamw"
lr = 0.01
[checkpoint]
interval_steps = 3
interval_minutes = 0
keep_latest = 2
keep_best = 1
[metrics]
log_every_steps = 1
"""


class File:
    def __init__(self):
        self.data, self.safe = bytearray(), bytearray()


class Folder:
    """`names` are those in memory, `safe` those on the disk."""

    def __init__(self):
        self.names, self.safe = {}, {}


class Disk:
    """The files below a folder, in memory and as they are safe."""

    def __init__(self, root):
        self.root, self.top = root, Folder()
        self.pending = []  # (folder, changes): changes of names that are not safe yet, in order

    def parent(self, path):
        parts = os.path.relpath(path, self.root).split(os.sep)
        folder = self.top
        for part in parts[:-1]:
            folder = folder.names[part]
        return folder, parts[-1]

    def at(self, path):
        if path == self.root:
            return self.top
        folder, name = self.parent(path)
        return folder.names.get(name)

    def change(self, folder, changes):
        self.pending.append((folder, changes))
        apply(folder.names, changes)

    def do(self, operation, operands):
        path = operands[0]
        if operation == "sync":
            node = self.at(path)
            if isinstance(node, File):
                node.safe = bytearray(node.data)
            elif node is not None:
                for folder, changes in self.pending:
                    if folder is node:
                        apply(folder.safe, changes)
                self.pending = [entry for entry in self.pending if entry[0] is not node]
            return
        if operation == "write":
            node, offset, data = self.at(path), int(operands[1]), bytes.fromhex(operands[2])
            node.data[len(node.data):] = bytes(max(0, offset - len(node.data)))
            node.data[offset:offset + len(data)] = data
            return
        folder, name = self.parent(path)
        if operation == "create":
            if name not in folder.names:
                self.change(folder, [(name, File())])
            elif operands[1]:
                folder.names[name].data = bytearray()
        elif operation == "mkdir":
            self.change(folder, [(name, Folder())])
        elif operation == "remove":
            self.change(folder, [(name, None)])
        else:
            other, to = self.parent(operands[1])
            assert other is folder, f"{operation} of {path} to another folder, {operands[1]}"
            moved, replaced = folder.names[name], folder.names.get(to)
            self.change(folder, [(name, replaced if operation == "exchange" else None), (to, moved)])

    def write_to(self, target, names_kept, data_kept):
        """Writes the disk as it may be: with the first `names_kept` of the changes that are not safe, and this share of the data
        that are not."""
        names = {}
        for folder, changes in self.pending[:names_kept]:
            apply(names.setdefault(id(folder), dict(folder.safe)), changes)
        self.write_folder(self.top, target, names, data_kept)

    def write_folder(self, folder, target, names, data_kept):
        os.mkdir(target)
        for name, node in names.get(id(folder), folder.safe).items():
            path = os.path.join(target, name)
            if isinstance(node, Folder):
                self.write_folder(node, path, names, data_kept)
                continue
            kept = node.safe if data_kept == 0 else node.data[:max(len(node.safe), int(len(node.data) * data_kept))]
            with open(path, "wb") as f:
                f.write(kept)


def apply(names, changes):
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


class Crashes:
    def __init__(self, arguments, folder):
        self.runtime, self.folder = arguments.runtime, folder
        self.configuration, self.run_folder = os.path.join(folder, "run.toml"), os.path.join(folder, "run")
        self.random = random.Random(arguments.seed)
        self.resumes = arguments.resumes
        self.states = self.resumed = self.partial = 0
        with open(self.configuration, "w", encoding="utf-8") as f:
            f.write(CONFIGURATION)

    def train(self, folder, *more, **environment):
        return run([self.runtime, "train", self.configuration, "--set", f"job.dump_folder={folder}", "--set",
                    "device.backend=reference", *more], env={**os.environ, **environment})

    def record(self, recorder):
        path = os.path.join(self.folder, "record")
        done = self.train(self.run_folder, LD_PRELOAD=recorder, RECORD_BELOW=self.run_folder, RECORD_TO=path)
        if done.returncode != 0:
            sys.exit(f"the recorded run failed ({done.returncode}):\n{done.stdout}")
        with open(path, encoding="utf-8") as f:
            operations = [line.rstrip("\n").split("\t") for line in f]
        with open(os.path.join(self.run_folder, "weights.safetensors"), "rb") as f:
            self.weights = f.read()
        return operations

    def check(self, disk, published, names_kept, data_kept, what):
        target = os.path.join(self.folder, "crashed")
        shutil.rmtree(target, ignore_errors=True)
        disk.write_to(target, names_kept, data_kept)
        self.states += 1
        done = run([self.runtime, "checkpoint", "verify", target])
        saved = sorted(name for name in os.listdir(os.path.join(target, "checkpoints")) if name.startswith("step-"))
        newest = saved[-1] if saved else "none"
        if done.returncode != 0 or newest < published:
            kept = os.path.join(tempfile.gettempdir(), "crashed-checkpoint")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(target, kept)
            sys.exit(f"{what}: expected a whole checkpoint, {published} or a newer one; found {newest}; kept in {kept}; "
                     f"runtime checkpoint verify ({done.returncode}):\n{done.stdout}")
        self.partial += newest > published
        self.check_metrics(target, saved, what)
        if self.random.random() < self.resumes:
            self.resume(target, what)

    @staticmethod
    def check_metrics(target, saved, what):
        """The lines before each checkpoint are on the disk: whoever goes on from it keeps them."""
        path = os.path.join(target, "metrics.jsonl")
        size = os.path.getsize(path) if os.path.exists(path) else 0
        for name in saved:
            with open(os.path.join(target, "checkpoints", name, "manifest.json"), encoding="utf-8") as f:
                expected = json.load(f)["manifest"]["state"]["metrics_bytes"]
            if size < expected or expected == 0:
                sys.exit(f"{what}: metrics.jsonl has {size} bytes; expected the {expected} of {name}, and more than 0")

    def resume(self, target, what):
        self.resumed += 1
        done = self.train(target, "--resume", "auto")
        with open(os.path.join(target, "weights.safetensors"), "rb") as f:
            weights = f.read()
        if done.returncode != 0 or weights != self.weights:
            sys.exit(f"{what}: training went on and ended with {done.returncode}"
                     f"{'' if weights == self.weights else ' and other weights'}:\n{done.stdout}")

    def crash_everywhere(self, operations):
        disk = Disk(self.run_folder)
        published = None
        for number, (operation, *operands) in enumerate(operations):
            if operation == "mkdir" and operands[0] == self.run_folder:
                continue
            disk.do(operation, operands)
            folder = disk.at(os.path.join(self.run_folder, "checkpoints"))
            safe = max((name for name in folder.safe if name.startswith("step-")), default=None) if folder else None
            if safe is not None and disk.top.safe.get("checkpoints") is folder:
                published = max(published or safe, safe)
            if published is None:
                continue
            what = f"after operation {number + 1} of {len(operations)} ({operation} {operands[0]})"
            pending = len(disk.pending)
            for names_kept in sorted({0, pending, self.random.randint(0, pending)}):
                for data_kept in (0, 0.5, 1):
                    self.check(disk, published, names_kept, data_kept, f"{what}, {names_kept} of {pending} names, {data_kept} of the data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--recorder", required=True)
    parser.add_argument("--resumes", type=float, default=0.02, help="of which share of the disks training goes on")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        crashes = Crashes(arguments, os.path.realpath(folder))
        operations = crashes.record(os.path.abspath(arguments.recorder))
        crashes.crash_everywhere(operations)
        print(f"{crashes.states} disks after {len(operations)} operations: each has a whole checkpoint that is not older than the "
              f"newest safe one ({crashes.partial} have a newer one); {crashes.resumed} runs went on and ended with the same weights")
        if crashes.states < 100 or crashes.resumed < 1:
            sys.exit("too few disks were tried; was anything recorded?")


if __name__ == "__main__":
    main()
