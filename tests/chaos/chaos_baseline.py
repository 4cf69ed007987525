"""Measures how each job ends undisturbed: its duration, its output files, and its system calls (traces)."""
import os
import re
import shutil
import threading
from collections import Counter

import chaos_jobs
from chaos_run import RESULTS, Run, copy_folder, files_of

UNDISTURBED_LIMIT_S = 120


def stable_part(path):
    """The longest piece of a path's last component that has no random or counted digits, and so is the same in every run."""
    name = path.rstrip("/").rsplit("/", 1)[-1]
    pieces = [p for p in re.split(r"[0-9a-f]{6,}|\d+|:", name) if len(p) >= 4]
    return max(pieces, key=len) if pieces else ""


class Baselines:
    """Undisturbed runs and traces of jobs, each made once, when it is first asked for. All threads may call the methods."""

    def __init__(self, runtime, work, shim, plugin_folder):
        self.runtime, self.work, self.shim, self.plugin_folder = runtime, work, shim, plugin_folder
        self.known, self.lock = {}, threading.Lock()
        self.origin = os.path.join(work, "origin")
        self._make_origin()

    def _make_origin(self):
        """Makes the folder that every case begins with: data, and a run with another seed, whose files are "the old ones"."""
        import pathlib

        shutil.rmtree(self.origin, ignore_errors=True)
        os.makedirs(self.origin)
        chaos_jobs.write_data(pathlib.Path(self.origin))
        words = [self.runtime, "train", "job.toml", "--set", "debug.seed=5"]
        run = Run(self.origin, words).start().wait(UNDISTURBED_LIMIT_S)
        if run.code != 0:
            raise SystemExit(f"an undisturbed run ended with {run.code}: {run.text('stderr')}")
        shutil.copy(os.path.join(self.origin, "run/weights.safetensors"), os.path.join(self.origin, "weights.safetensors"))
        for name in ("stdout", "stderr"):
            os.remove(os.path.join(self.origin, name))
        self.old = files_of(self.origin)

    def has_plugin(self, name):
        return os.path.exists(os.path.join(os.path.dirname(self.runtime), f"../lib/runtime/plugins/lib{name}.so"))

    def variables(self, case):
        """The environment variables of the case, with the paths of this build filled in."""
        plugins = os.path.join(os.path.dirname(self.runtime), "../lib/runtime/plugins")
        places = {"@shim": self.shim, "@chaos": self.plugin_folder, "@plugins": os.path.normpath(plugins)}
        found = {}
        for key, value in case.get("variables", {}).items():
            for word, place in places.items():
                value = value.replace(word, place)
            found[key] = value
        return found

    def get(self, case):
        """{seconds, results: file -> digest, or None where two runs differ, output} for the job of the case."""
        settings = [s for s in case.get("settings", ()) if s != chaos_jobs.ENDLESS]
        key = (case["job"], tuple(settings))
        with self.lock:
            if key not in self.known:
                self.known[key] = self._measure({**case, "settings": settings})
            known = self.known[key]
        if chaos_jobs.ENDLESS in case.get("settings", ()):
            return {**known, "results": dict.fromkeys(known["results"])}
        return known

    def _run(self, case, name, variables):
        """Runs the job undisturbed; again if a busy machine was too slow for the deadlines of the job."""
        folder = os.path.join(self.work, name)
        words = [self.runtime] + chaos_jobs.command(case["job"], case.get("settings", ()))
        for _ in range(3):
            copy_folder(self.origin, folder)
            run = Run(folder, words, variables).start().wait(UNDISTURBED_LIMIT_S)
            if run.code == 0:
                break
        if run.code != 0:
            raise SystemExit(f"{' '.join(words)} undisturbed ended with {run.code}: {run.text('stderr')}")
        return run, folder

    def _measure(self, case):
        variables = {k: v for k, v in self.variables(case).items() if k not in ("LD_PRELOAD", "CHAOS", "CHAOS_PLUGIN")}
        results, seconds = [], []
        for number in (1, 2):
            run, folder = self._run(case, f"baseline{number}", variables)
            seconds.append(run.seconds)
            results.append({n: d for n, d in files_of(folder).items() if n.startswith(RESULTS)})
        same = {name: d if results[1].get(name) == d else None for name, d in results[0].items()}
        return {"seconds": max(seconds), "results": same, "output": run.text("stdout")}

    def trace(self, case):
        """Sorted pairs of (function, rank, program, stable part of the path) and count, from the shim or from the plugin."""
        return self._traces(case)[0]

    def trace_of_start(self, case):
        """The same from the shim, for the calls that each process makes up to the last connection of its own."""
        return self._traces(case)[1]

    def _traces(self, case):
        settings = [s for s in case.get("settings", ()) if s != chaos_jobs.ENDLESS]
        key = ("trace", case["job"], tuple(settings), "LD_PRELOAD" in case["variables"])
        with self.lock:
            if key not in self.known:
                self.known[key] = self._trace({**case, "settings": settings})
            return self.known[key]

    def _trace(self, case):
        log = os.path.join(self.work, "trace.log")
        if os.path.exists(log):
            os.remove(log)
        mode = "CHAOS" if "LD_PRELOAD" in case["variables"] else "CHAOS_PLUGIN"
        self._run(case, "traced", {**self.variables(case), mode: "trace", "CHAOS_LOG": log})
        counts, by_process, start = Counter(), {}, Counter()
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.rstrip("\n").split(" ", 7)
                if mode == "CHAOS_PLUGIN":
                    counts[words[0], words[2], words[4], ""] += 1
                    continue
                call = words[0], words[2], "runtime", stable_part(words[7]) if len(words) > 7 and words[7] else ""
                counts[call] += 1
                calls = by_process.setdefault(words[4], Counter())
                calls[call] += 1
                if call[0] in ("connect", "accept"):
                    start.update(calls)
                    calls.clear()
        return sorted(counts.items()), sorted(start.items())
