"""Decides whether a case ended as it must; README.md has the list of rules."""
import json
import os
import re
import signal
import tomllib

import chaos_jobs
import chaos_watch
from chaos_expect import STOPS, describe, expected, takes_signals
from chaos_run import Run, copy_folder, is_result

TEMPORARY = re.compile(r"(^|/)\.[^/]+\.[0-9a-f]{16}\.tmp$")
CHECKPOINT = re.compile(r"run/checkpoints/step-\d{9}/(rank-\d+\.(safetensors|decisions\.json)|config\.toml|manifest\.json)")
# A checkpoint that is not complete. The next run removes it.
INCOMPLETE = re.compile(r"run/checkpoints/\.(step-\d{9}|probe)\.[0-9a-f]{16}\.tmp")
STOP_CODES = {129, 130, 143, -1, -2, -15}
# Seconds beyond the duration of an undisturbed run: one allowance for a machine with other work; one for several ranks, with
# their deadlines and the time that they give each other to end (launch/README.md: 2 s, then SIGTERM, then 2 s; watch/watchdog.h:
# 5 s after an error of the rank itself).
SLACK_S = 10
RANKS_SLACK_S = chaos_jobs.TIMEOUT_S + chaos_jobs.INIT_TIMEOUT_S + 4 + 5
PROBE_S = 20


def limit_s(case, undisturbed):
    limit = SLACK_S + 5 * undisturbed["seconds"]
    if chaos_jobs.ranks(case["job"]) > 1 or "by_hand" in case:
        limit += RANKS_SLACK_S
    if case.get("program") == "plugin_probe" or case.get("call") == "entry":
        limit += PROBE_S
    if "launch.max_restarts=1" in case.get("settings", ()):
        limit *= 2
    if case.get("how") in ("hang", "STOP"):  # also for hangs at the end, where the launcher waits as long as for a rank that saves
        limit += chaos_jobs.SAVE_TIMEOUT_S
    return limit


FILES = ("run/weights.safetensors", "run/config.toml", "gradients.safetensors", "steps.safetensors")


class Judge:
    def __init__(self, case, done, baselines, folder):
        self.case, self.done, self.baselines, self.folder = case, done, baselines, folder
        self.undisturbed, self.wrong = baselines.get(case), []
        self.codes = [run.code for run in done.runs]
        self.code = max(self.codes, key=abs) if "by_hand" in case else self.codes[0]
        self.error_text = "\n".join(run.text("stderr") for run in done.runs)
        self.expected = expected(case, done)

    def say(self, text):
        self.wrong.append(text)

    def judge(self):
        self._code()
        self._time()
        self._names()
        self._processes()
        self._folders()
        self._inputs()
        self._results()
        self._metrics()
        self._untouched()
        self._saved_at_stop()
        self._said_by_ranks()
        self._order_of_calls()
        return self.wrong

    # Whether a rule does not apply to the case
    # --------------------------------------------------------------------------------------------

    def _was_killed(self):
        """Whether a process of the run ended without a chance to clean up: by SIGKILL, a crash, a second signal, or the
        watchdog."""
        signals = [one.signal for one in self.done.sent if one.got and one.signal != "PAUSE"]
        return (self.case.get("by_hand") == "leftovers" or self.code in (-9, -6, -11, 7, 137) or "KILL" in signals or "STOP" in signals or len(signals) > 1
                or self.case.get("how") in ("KILL", "STOP", "segv", "abort", "quit", "exit", "hang")
                or (self.code in STOP_CODES and (self.case.get("how") == "hang" or not chaos_jobs.is_training(self.case["job"]))))

    def _launcher_was_killed(self):
        return self.code == -9 or self.case["job"] == "mpi2"

    def _no_error_text(self):
        """Whether no error text can be expected: standard error is missing, or its file may not grow either."""
        return self.case.get("streams", {}).get("2") is not None or self.case.get("limits", {}).get("FSIZE", 1000) < 1000

    # The rules ------------------------------------------------------------------------------------------------------------------

    def _code(self):
        if any(run.killed_late for run in self.done.runs):
            self.say("it did not end")
        elif any(code not in self.expected.codes for code in self.codes):
            shown = ", ".join(describe(c) for c in self.codes)
            self.say(f"{shown}, expected one of {sorted(self.expected.codes)}")

    def _time(self):
        seconds, limit = max(run.seconds for run in self.done.runs), limit_s(self.case, self.undisturbed)
        if seconds > limit:
            self.say(f"it took {seconds:.1f} s, expected at most {limit:.1f} s")

    def _names(self):
        if self.code == 0 or self.code in STOP_CODES or self.code < 0 or self._no_error_text():
            return
        if "error: " not in self.error_text and self.code not in (127, 7):
            self.say("no error is said")
        elif self.expected.names and not any(n.lower() in self.error_text.lower() for n in self.expected.names):
            self.say(f"the error names none of {self.expected.names}")
        elif self.code == 5 and not all(part in self.error_text for part in self.expected.file_words):
            self.say(f"the error does not name all of {self.expected.file_words}")

    def _processes(self):
        if self.done.left_processes:
            self.say(f"processes are left over: ranks {sorted(map(str, self.done.left_processes.values()))}")

    def _folders(self):
        left, fault = self.done.left_tmp, self.case.get("variables", {}).get("CHAOS", "")
        for_ever_without_memory = fault.startswith("malloc:") and "times=0" in fault
        if self.case.get("rank") == "-" and ("path=runtime-job-" in fault or for_ever_without_memory):
            left = []  # folders may be left over: the launcher could not open or remove them
        if left and not self._launcher_was_killed():
            self.say(f"left in TMPDIR: {left}")
        temporary = [name for name in self.done.files if TEMPORARY.search(name)]
        if temporary and not self._was_killed():
            self.say(f"temporary files are left: {temporary}")
        incomplete = [name for name in self.done.files if INCOMPLETE.match(name)]
        if incomplete and self.code == 0:
            self.say(f"checkpoints that are not complete are left: {incomplete}")
        strays = [n for n in self.done.files if not self._is_known(n)]
        if strays:
            self.say(f"files that nobody knows: {strays}")

    def _is_known(self, name):
        return (name in self.baselines.old or name in self.undisturbed["results"] or TEMPORARY.search(name) is not None
                or CHECKPOINT.fullmatch(name) is not None or INCOMPLETE.match(name) is not None
                or name.startswith(("cache/", "tmp/", "before/")) or re.fullmatch(r"run/rank-\d+-collectives\.(txt|json)", name)
                or name in ("chaos.log", "watch.log", "run/scaling.json") or re.fullmatch(r"(rank\d\.)?std(out|err)", name) is not None)

    def _inputs(self):
        for name, digest in self.baselines.old.items():
            if name.startswith("run/") or name == self.done.damaged:
                continue
            if self.done.files.get(name) != digest:
                self.say(f"{name}, an input, was changed")

    def _results(self):
        new = self.undisturbed["results"]
        for name in FILES:
            old, is_now = self.baselines.old.get(name), self.done.files.get(name)
            if name == self.done.damaged:
                old = is_now if self.code != 0 else old
            if is_now is None:
                if old is not None and name != self.done.damaged and self.case.get("disk", {}).get("where") != "run":
                    self.say(f"{name} is gone")
                continue
            if is_now not in (old, new.get(name)) and not self._is_whole(name):
                self.say(f"{name} is neither the old file nor a whole new one")
        self._new_results(new)

    def _new_results(self, new):
        """Checks the results of a run with exit code 0, which claims that all files are written and right."""
        if self.code != 0 or any(c != 0 for c in self.codes) or "by_hand" in self.case:
            return
        for name, digest in new.items():
            if not name.endswith(".safetensors"):
                continue
            is_now = self.done.files.get(name)
            if is_now == self.baselines.old.get(name) and is_now != digest:
                self.say(f"exit code 0, but {name} was not written")
            elif digest is not None and is_now != digest and not self._may_differ():
                self.say(f"exit code 0, but {name} is not that of an undisturbed run")

    def _may_differ(self):
        """Whether results may differ from an undisturbed run: other input, numbers made by a plugin, or a job that depends
        on timing."""
        return (self.case["job"] in chaos_jobs.UNREPEATABLE or self.case["kind"] in ("damage", "plugin")
                or chaos_jobs.ENDLESS in self.case.get("settings", ()))

    def _is_whole(self, name):
        path = os.path.join(self.folder, name)
        try:
            if name.endswith(".toml"):
                with open(path, "rb") as file:
                    tomllib.load(file)
                return True
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
            return False
        verb = ["evaluate", "job.toml", "--weights", name] if "weights" in name else None
        if verb is None:
            verb = ["verify", "job.toml", "--against", name] if "steps" in name else None
        if verb is None:
            return os.path.getsize(path) > 100
        if self.done.damaged == "job.toml":
            return True  # the right content of the file is not known
        settings, clean = [], os.path.join(self.folder, "check")
        copy_folder(self.baselines.origin, clean)  # with undamaged data
        for setting in chaos_jobs.JOBS[self.case["job"]][2]:
            if setting.startswith(("dataset.", "model.")):
                settings += ["--set", setting]
        verb[-1] = path
        run = Run(clean, [self.baselines.runtime] + verb + settings).start().wait(60)
        if run.code not in (0, 6):
            self.say(f"{name}: {run.text('stderr').strip()}")
        return run.code in (0, 6)

    def _metrics(self):
        path = os.path.join(self.folder, "run/metrics.jsonl")
        if not os.path.isfile(path) or self.done.damaged == "run/metrics.jsonl":
            return
        with open(path, "rb") as file:
            text = file.read()
        cut = 0 if not text or text.endswith(b"\n") else 1
        for line in text.split(b"\n"):
            try:
                json.loads(line or b"{}")
            except ValueError:
                cut += 1
        allowed = 2 if self.case["kind"] == "disk" or "metrics" in self.case.get("variables", {}).get("CHAOS", "") else 0
        if cut > allowed:
            self.say(f"metrics.jsonl has {cut} cut lines")


    def _untouched(self):
        """A file that an error message calls not written must be unchanged; the message that its new name may not last is
        excluded."""
        for name in FILES:
            line = re.search(rf"cannot write \S*{re.escape(name)}: (?!.*\bfolder\b)", self.error_text)
            if line and name != self.done.damaged and self.done.files.get(name) != self.baselines.old.get(name):
                self.say(f"the error says that {name} cannot be written, but it is another file now")

    def _saved_at_stop(self):
        """Exit codes 129, 130 and 143 of a training that handles signals claim that it has saved."""
        stops = [one for one in self.done.sent if one.got and one.signal in STOPS]
        if len(stops) != 1 or self.code != 128 + getattr(signal, "SIG" + stops[0].signal) or self.case["job"] == "mpi2":
            return
        name = "run/weights.safetensors"
        if takes_signals(self.case, self.done, stops[0]):
            self.say("it was stopped, but does not say that it has saved")
        elif stops[0].stage == "work" and self.done.files.get(name) == self.baselines.old.get(name):
            self.say(f"it was stopped, and has not saved {name}")

    def _launcher_signals(self):
        """The stop signals that the launcher received, in their order."""
        own = [one.signal for one in self.done.sent if one.got and one.to == "launcher" and one.signal in STOPS]
        if not own and self.case["kind"] == "crash" and self.case["rank"] == "-" and self.case["how"] in STOPS:
            own = [self.case["how"]]
        return [getattr(signal, "SIG" + name) for name in own]

    def _said_by_ranks(self):
        """The launcher's exit code must be one that its ranks account for, after a signal too."""
        of_launcher = self.case["kind"] == "syscall" and self.case["rank"] == "-"  # an error of the launcher itself
        if (not self.done.watched or not self.case["job"].startswith("gloo") or self.code < 0 or of_launcher
                or self.done.runs[0].killed_late or "launch.max_restarts=1" in self.case.get("settings", ())):
            return
        ranks = chaos_watch.Ranks(chaos_watch.events_of(self.done.watched), self._launcher_signals())
        if ranks.seen and self.code not in ranks.codes():
            self.say(f"the launcher says {self.code}, its ranks {sorted(ranks.codes())}")

    def _order_of_calls(self):
        """The order of calls decides what is on the disk after a power failure, which the harness cannot cause."""
        events = chaos_watch.events_of(self.done.watched)
        for text in chaos_watch.unsafe_renames(events, self.folder, is_result):
            self.say(text)
        if self.code == 0 and self.case.get("how") != "EACCES":  # a folder may be writable but not readable
            for text in chaos_watch.unsynced_folders(events, self.folder, is_result):
                self.say(text)


def judge(case, done, baselines, folder):
    """{status, what, ...} for one case."""
    if done.skipped:
        return {"status": "skipped", "what": done.skipped}
    one = Judge(case, done, baselines, folder)
    wrong = one.judge()
    found = {"status": "wrong" if wrong else "passed" if done.reached else "not reached",
             "codes": one.codes, "took": round(max(run.seconds for run in done.runs), 2)}
    if wrong:
        found["what"] = "; ".join(wrong)
        found["stderr"] = one.error_text[-1500:]
    return found
