"""Runs programs for the steps of check.py and reports: time budgets, a log of the outputs, rows with a verdict."""

import concurrent.futures
import json
import os
import shlex
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEAST_SECONDS = 2.0  # with less time left, no program is started
LOG_MIB = 15
STREAM_BYTES = 1 << 20  # bytes of one program's output in the log; the middle of longer outputs is left out
LATE_STREAM_BYTES = 1 << 13  # the same if the log is nearly full


def processes(most):
    """How many processes run at the same time: at most `most`, and one core stays free."""
    return max(1, min(most, (os.cpu_count() or 1) - 1))


class Cut(Exception):
    """The time of a step or of the whole call has passed."""


class Done:
    """A command that has ended by itself or was killed (code None)."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def reason(self):
        """One line that says why the command failed."""
        if self.code is None:
            return f"not done after {self.seconds:.0f} s"
        lines = [l for l in (self.err + "\n" + self.out).splitlines() if l.strip()]
        errors = [l for l in lines if "error" in l.lower()] or lines[-1:]
        return f"exit code {self.code}: " + (errors[0].strip()[:300] if errors else "no output")

    def last_json(self):
        """The object in the last line of the output."""
        return json.loads(self.out.splitlines()[-1])


class Deadlines:
    """The deadlines of the running step and of the whole call, in seconds of time.monotonic()."""

    def __init__(self, seconds, begun):
        """`seconds`: time limit of the call, None for no limit; `begun`: seconds that have passed already."""
        self.call = time.monotonic() - begun + seconds if seconds else float("inf")
        self.step = self.call

    def begin_step(self, seconds):
        self.step = min(self.call, time.monotonic() + seconds if seconds else float("inf"))

    def left(self):
        return self.step - time.monotonic()

    def over(self):
        return "the call's time is over" if self.step == self.call else "the step's time is over"


def shortened(text, most):
    """The beginning and the end of the text, together `most` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n... {len(text) - most} characters left out ...\n{text[len(text) - most // 2:]}"


class Log:
    """output.log: every command with its output. The size is limited, see LOG_MIB."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, "output.log"), "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.lock, self.begin = threading.Lock(), time.monotonic()

    def add(self, step, words, env, done):
        with self.lock:
            room = (LOG_MIB << 20) - self.file.tell()
            most = STREAM_BYTES if room > 4 * STREAM_BYTES else LATE_STREAM_BYTES
            if room < 4 * LATE_STREAM_BYTES:
                return
            extra = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
            code = "ended by us" if done.code is None else f"exit code {done.code}"
            self.file.write(f"=== [{step}] +{time.monotonic() - self.begin:.1f} s, {code} after {done.seconds:.1f} s: "
                            f"{extra} {shlex.join(words)}\n{shortened(done.out, most)}\n")
            if done.err.strip():
                self.file.write(f"--- standard error\n{shortened(done.err, most)}\n")
            self.file.flush()


def end(child):
    """Kills the child and all the processes that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the child has ended by itself


def start(words, limit, env, running):
    """Runs a command in a process group of its own, and kills the group after `limit` seconds. Meanwhile the process is
    in the set `running`. Returns (Done, None), or (Done, exception) if this script itself is stopped.
    """
    begin = time.monotonic()
    try:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                 stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **env}, start_new_session=True)
    except OSError as error:
        return Done(127, "", str(error), 0), None
    stopped = None
    running.add(child)
    try:
        out, err = child.communicate(timeout=limit)
        code = child.returncode
    except BaseException as error:  # pylint: disable=broad-except
        end(child)
        out, err = child.communicate()
        code, stopped = None, None if isinstance(error, subprocess.TimeoutExpired) else error
    running.discard(child)
    return Done(code, out, err, time.monotonic() - begin), stopped


class Check:
    """The rows of the report so far, and functions that start programs."""

    def __init__(self, arguments, scratch, begun=0.0):
        """`scratch`: a folder for files of the programs; `begun`: seconds of the call that have passed already."""
        self.arguments, self.scratch = arguments, scratch
        self.device, self.other = arguments.device, arguments.against
        self.on_gpu = arguments.device not in ("cpu", "reference")
        self.rows, self.facts, self.unusable, self.limits = [], {}, "", {}
        self.step, self.wants = "", {}
        self.running = set()  # processes that run now
        self.deadlines, self.log = Deadlines(arguments.seconds, begun), Log(arguments.output)
        libraries = os.environ.get("RUNTIME_GPU_LIBRARIES", "")  # set by check.sh; includes the inherited folders
        self.env = {"LD_LIBRARY_PATH": libraries} if libraries else {}

    def want(self, name, otherwise):
        """The argument `name` of this step, for example `models`; the command line has precedence over the call."""
        given = getattr(self.arguments, name, None)
        return given if given is not None else self.wants.get(name, otherwise)

    def path(self, *parts):
        """A path in the build."""
        return os.path.join(self.arguments.build, *parts)

    def run(self, words, limit, env=None):
        """Runs a command for at most `limit` seconds. Raises Cut if the time of the step does not suffice."""
        left = self.deadlines.left()
        if left < LEAST_SECONDS:
            raise Cut(f"{self.deadlines.over()}: not started: {shlex.join(words)[:200]}")
        done, stopped = start(words, min(limit, left), env or {}, self.running)
        self.log.add(self.step, words, env or {}, done)
        if stopped is not None:
            raise stopped
        if done.code is None and left < limit:
            raise Cut(f"{self.deadlines.over()}: ended after {done.seconds:.0f} s: {shlex.join(words)[:200]}")
        return done

    def ours(self, words, limit, env=None):
        """Runs a program with the search path for CUDA's and the packed libraries."""
        return self.run(words, limit, {**self.env, **(env or {})})

    def all_of(self, jobs):
        """Runs functions in parallel that each wait for a program, and returns their results; the first exception ends
        them all.
        """
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(jobs)) as pool:
            try:
                return [future.result() for future in [pool.submit(job) for job in jobs]]
            except BaseException:
                for child in list(self.running):
                    end(child)
                raise

    def runtime(self, words, limit, env=None):
        return self.ours([self.path("bin", "runtime"), *words], limit, env)

    def row(self, what, verdict, detail, seconds=0.0, **figures):
        self.rows.append({"step": self.step, "what": what, "verdict": verdict, "detail": detail,
                          "seconds": round(seconds, 1), **figures})
        print(f"{verdict:<8} {self.step:<12} {what:<52} {detail}", flush=True)
        self.write()

    def verdict(self, what, good, detail, seconds=0.0, **figures):
        self.row(what, "ok" if good else "FAILED", detail, seconds, **figures)

    def skip(self, what, reason):
        self.row(what, "skipped", reason)

    def count(self, verdict):
        return sum(row["verdict"] == verdict for row in self.rows)

    def write(self):
        with open(os.path.join(self.arguments.output, "results.json"), "w", encoding="utf-8") as f:
            json.dump({"facts": self.facts, "limits": self.limits, "rows": self.rows}, f, indent=1)
            f.write("\n")
        with open(os.path.join(self.arguments.output, "results.md"), "w", encoding="utf-8") as f:
            f.write("".join(f"- {name}: {value}\n" for name, value in self.facts.items()))
            f.write("\n| step | what | verdict | figures |\n|---|---|---|---|\n")
            for r in self.rows:
                what, detail = (r[key].replace("|", "\\|").replace("\n", " ") for key in ("what", "detail"))
                f.write(f"| {r['step']} | {what} | {r['verdict']} | {detail} |\n")


def sets(**keys):
    """Options from keywords: sets(training__steps=5) -> ["--set", "training.steps=5"]"""
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
