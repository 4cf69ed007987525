"""Runs a case and gathers the facts that the judge needs."""
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import namedtuple
from functools import lru_cache

import chaos_damage
import chaos_jobs
from chaos_peers import NoRedis, Strangers
from chaos_run import Run, copy_folder, files_of, process_of_rank, processes_of

# Kinds of cases in which the shim also records what happens to files and processes. The other kinds limit memory, descriptors
# or streams, which the shim needs too, or start their processes themselves.
WATCHED = ("signal", "crash", "syscall")

# `got`: whether a process received the signal. `stage` of the run just before: "start", "work" (a step was reported), "end"
# (saved).
Sent = namedtuple("Sent", "signal to got stage")

# The limit for any case; after it the run is killed.
HARD_LIMIT_S = 60


@lru_cache
def unshare_words():
    """The command that gives a mount namespace in which file systems can be mounted; None if the kernel refuses one."""
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        test = words + ["sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
        try:
            if subprocess.run(test, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return words
        except OSError:
            return None
    return None


# A training prints one of these when its weights are in place.
SAVED = re.compile(r"weights saved: |^done: ", re.MULTILINE)

# $1: the folder, $2: options of the tmpfs, $3: options to remount it with, or "". The files that the program leaves are copied
# back.
ON_SMALL_DISK = """
where=$1 options=$2 again=$3
shift 3
cp -a "$where" before && mount -t tmpfs -o "$options" none "$where" && cp -a before/. "$where"/ || exit 98
[ -z "$again" ] || mount -o "remount,$again" "$where" || exit 98
"$@"
code=$?
rm -rf before && cp -a "$where" after
exit $code
"""


def disk_words(folder, disk):
    where = os.path.join(folder, disk["where"])
    os.makedirs(where, exist_ok=True)
    files = len(os.listdir(where))
    options = f"size={4 * (files + 1) + disk['bound']}k"
    if disk["way"] == "inodes":
        options = f"size=1m,nr_inodes={files + 1 + disk['bound']}"
    if disk["way"] == "read_only":
        options = "size=1m"
    again = "ro" if disk["way"] == "read_only" else ""
    return unshare_words() + ["sh", "-c", ON_SMALL_DISK, "sh", disk["where"], options, again]


class Done:
    """The observed outcome of a case."""

    def __init__(self):
        self.runs, self.reached, self.notes = [], True, []
        self.skipped = ""
        self.damaged = None
        self.left_processes, self.left_tmp, self.files = {}, [], {}
        self.log = self.watched = ""  # from the shim or the plugin: the faults that it caused, the events that it saw
        self.sent = []

    def has_saved(self):
        return any(SAVED.search(run.text("stderr")) for run in self.runs)

    def exceeded_saving(self):
        return any(f" has taken more than {chaos_jobs.SAVE_TIMEOUT_S} s" in run.text("stderr") for run in self.runs)


class Doing:
    def __init__(self, case, baselines, folder):
        self.case, self.baselines, self.folder = case, baselines, folder
        self.done = Done()
        self.undisturbed = baselines.get(case)

    def do(self):
        case, done = self.case, self.done
        copy_folder(self.baselines.origin, self.folder)
        if "damage" in case:
            self._damage()
        if "disk" in case and unshare_words() is None:
            done.skipped = "file systems cannot be mounted here"
            return done
        if "by_hand" in case:
            self._by_hand()
        else:
            self._job()
        done.left_processes = done.runs[0].leftover_processes()
        self._move_back()
        done.left_tmp = sorted(os.listdir(os.path.join(self.folder, "tmp")))
        done.files = files_of(self.folder)
        done.log, done.watched = self._text("chaos.log"), self._text("watch.log")
        return done

    def _text(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _damage(self):
        case, what = self.case, self.case["damage"]
        if what["file"] == "cache":
            words = [self.baselines.runtime] + chaos_jobs.command(case["job"], case.get("settings", ()))
            Run(self.folder, words).start().wait(HARD_LIMIT_S)
        self.done.damaged = chaos_damage.damage(self.folder, what)
        self.done.reached = self.done.damaged is not None

    def _variables(self):
        variables = self.baselines.variables(self.case)
        if "CHAOS" in variables or "CHAOS_PLUGIN" in variables:
            variables["CHAOS_LOG"] = os.path.join(self.folder, "chaos.log")
        if self.case["kind"] in WATCHED:
            variables["CHAOS_WATCH"] = os.path.join(self.folder, "watch.log")
            variables["LD_PRELOAD"] = self.baselines.shim
        return variables

    def _run(self, words, variables=None):
        case = self.case
        streams = {int(stream): what for stream, what in case.get("streams", {}).items()}
        run = Run(self.folder, words, variables or self._variables(), case.get("limits"), streams)
        self.done.runs.append(run)
        return run.start()

    def _job(self):
        case = self.case
        words = [self.baselines.runtime] + chaos_jobs.command(case["job"], case.get("settings", ()))
        if "disk" in case:
            words = disk_words(self.folder, case["disk"]) + words
        run = self._run(words)
        strangers = Strangers(self.folder, case["peers"], case["seed"]) if "peers" in case else None
        if "actions" in case:
            self._act(run)
        if case.get("how") in ("hang", "STOP") and not chaos_jobs.has_processes(case["job"]):
            self._end_a_hang(run)
        run.wait(HARD_LIMIT_S)
        if strangers is not None:
            self.done.reached = strangers.end() > 0

    def _end_a_hang(self, run):
        """No watchdog guards a process without other ranks: the user stops it, with a second signal if the first has no
        effect."""
        end = time.monotonic() + 2 + 3 * self.undisturbed["seconds"] + (21 if self.case.get("program") == "plugin_probe" else 0)
        while run.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        for _ in range(2):
            if run.process.poll() is None:
                run.send(signal.SIGTERM)
                time.sleep(1)

    def _wait_for_work(self, run):
        """Waits until the training has written a line of metrics."""
        end = time.monotonic() + 20
        while run.process.poll() is None and time.monotonic() < end and '"step":' not in run.text("stdout"):
            time.sleep(0.005)

    def _act(self, run):
        endless = chaos_jobs.ENDLESS in self.case.get("settings", ())
        if endless:
            self._wait_for_work(run)
        begin, scale = time.monotonic(), 1.0 if endless else self.undisturbed["seconds"]
        for action in self.case["actions"]:
            time.sleep(max(0.0, begin + action["at"] * scale - time.monotonic()))
            self._send(run, action)
        reached = any(one.got for one in self.done.sent)
        if endless and not any(one.got and one.signal != "PAUSE" for one in self.done.sent):
            time.sleep(0.2)
            self._send(run, {"signal": "TERM", "to": "launcher"})
        self.done.reached = reached

    def _send(self, run, action):
        process = run.process.pid if action["to"] == "launcher" else process_of_rank(self.folder, action["to"], 0.3)
        if run.process.poll() is not None:
            process = None
        name, stage = action["signal"], self._stage(run)
        got = process is not None and run.send(signal.SIGSTOP if name == "PAUSE" else getattr(signal, "SIG" + name), process)
        if got and name == "PAUSE":
            go_on = threading.Timer(action["seconds"], lambda: run.send(signal.SIGCONT, process))
            go_on.daemon = True
            go_on.start()
        self.done.sent.append(Sent(name, action["to"], got, stage))

    @staticmethod
    def _stage(run):
        if SAVED.search(run.text("stderr")):
            return "end"
        return "work" if '"step":' in run.text("stdout") else "start"

    def _by_hand(self):
        case, way = self.case, self.case["by_hand"]
        meeting = os.path.join(self.folder, "meeting")
        server = NoRedis(case["words"]) if way == "no_redis" else None
        settings = ["comm.rendezvous=file", f"comm.rendezvous_address={meeting}"]
        if server is not None:
            settings = ["comm.rendezvous=redis", f"comm.rendezvous_address={server.address}"]
        if way == "leftovers":
            self._two_ranks(settings + [chaos_jobs.ENDLESS], after=0.15, number=signal.SIGKILL)
        runs = self._two_ranks(settings)
        if way == "folder":
            time.sleep(case["at"])
            hit = chaos_damage.spoil_rendezvous(meeting, case["spoil"], random.Random(case["seed"]))
            self.done.reached = hit > 0
        for run in runs:
            run.wait(HARD_LIMIT_S)
        self.done.runs = runs
        if server is not None:
            server.end()
        shutil.rmtree(meeting, ignore_errors=True)

    def _two_ranks(self, settings, after=None, number=None):
        runs = []
        for rank in (0, 1):
            words = [self.baselines.runtime, "train", "job.toml"]
            for setting in ["comm.backend=gloo"] + settings:
                words += ["--set", setting]
            variables = {"RUNTIME_RANK": str(rank), "RUNTIME_WORLD_SIZE": "2"}
            runs.append(Run(self.folder, words, variables, name=f"rank{rank}.").start())
        if after is not None:
            time.sleep(after)
            for run in runs:
                run.send(number)
                run.wait(HARD_LIMIT_S)
        return runs

    def _move_back(self):
        after = os.path.join(self.folder, "after")
        if "disk" in self.case and os.path.isdir(after):
            where = os.path.join(self.folder, self.case["disk"]["where"])
            shutil.rmtree(where, ignore_errors=True)
            os.rename(after, where)


def do(case, baselines, folder):
    try:
        return Doing(case, baselines, folder).do()
    finally:
        for process in processes_of(folder):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
