"""Runs one program at a time and measures it from outside. The compare scripts share this module."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass
class Run:
    """The output of one child process and the resources that it used."""

    lines: list  # lines of its standard output
    times: list  # seconds from the start of the process to each line
    peak_mib: float  # largest resident set
    foreign_load: float  # fraction of all processors that other processes used meanwhile
    involuntary_switches: int  # how often the system gave the processor of one of its threads to another one

    def json(self):
        return json.loads(self.lines[-1])


def busy_seconds():
    """Processor seconds that the whole machine has used so far, including time stolen by the host."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run(command, env=None):
    """Runs a command and returns its Run. If the command fails, prints its error output and exits, so that no figure is
    missing unnoticed.
    """
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} is not there or cannot be started; build with -DRUNTIME_BUILD_BENCHMARKS=ON and name "
                 "the folder of the programs with --bin")
    lines, times = [], []
    with tempfile.TemporaryFile("w+") as errors:
        busy, begin = busy_seconds(), time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
                                 env={**os.environ, **(env or {})})
        for line in child.stdout:
            times.append(time.monotonic() - begin)
            lines.append(line)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0 or not lines:
            errors.seek(0)
            sys.exit(f"'{' '.join(command)}' ended with {child.returncode}, expected 0 and a result:\n{errors.read()}")
    wall = time.monotonic() - begin
    foreign = busy_seconds() - busy - usage.ru_utime - usage.ru_stime
    return Run(lines, times, usage.ru_maxrss / 1024, max(0.0, foreign / wall / os.cpu_count()),
               usage.ru_nivcsw)


class Series:
    """Samples per second of one contender over the rounds."""

    def __init__(self):
        self.rates, self.loads, self.peaks = [], [], []

    def add(self, result):
        self.rates.append(result.json()["samples_per_second"])
        self.loads.append(result.foreign_load)
        self.peaks.append(result.peak_mib)

    def median(self):
        return statistics.median(self.rates)

    def to_json(self):
        return {"samples_per_second": self.median(), "rounds": self.rates,
                "foreign_load": statistics.median(self.loads), "peak_resident_mib": statistics.median(self.peaks)}


def add_common_arguments(parser, models):
    build = os.path.join(ROOT, "build", "bin")
    parser.add_argument("--bin", default=build, help="folder of the built programs (default: build/bin)")
    parser.add_argument("--models", nargs="+", choices=models, default=models)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="write all figures")


def bench_command(arguments, model, steps):
    return [os.path.join(os.path.abspath(arguments.bin), "runtime"), "bench", f"configs/bench_{model}.toml",
            "--steps", str(steps), "--json", "--set", f"device.threads={arguments.threads}"]


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        name = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), "unknown")
    return {"processor": name, "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}


def write_json(path, figures):
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"machine": machine(), **figures}, f, indent=2)
            f.write("\n")
