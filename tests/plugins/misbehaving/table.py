#!/usr/bin/env python3
"""What users see of a plugin that misbehaves in one of its functions.

Trains a small model on a plugin of which one function throws, answers a wrong status, does nothing, aborts, exits or hangs,
and prints a table: exit code, time, and the first line of the error. A run is wrong if the runtime itself crashes or says
that it has an internal fault, if it ends with 0 without having trained, or if it cannot be interrupted.

  table.py --runtime build/bin/runtime --plugins build/tests/plugins_misbehaving [--how throw,status] [--only device.copy]
"""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

DEVICE = {
    "plugin": "entry get_interface options shutdown",
    "device": "count properties open close allocate free stream_create stream_destroy stream_synchronize copy fill "
              "event_create event_destroy event_record event_wait event_synchronize event_query event_elapsed memory_info "
              "utilisation",
    "kernel": "query create destroy info launch layout_bytes layout_name",
    "capture": "begin end replay destroy",
}
COMMUNICATOR = {
    "communicator": "properties capabilities create split destroy group_begin group_end enqueue work_poll work_wait "
                    "work_destroy abort asynchronous_error",
}
HOW = ["throw", "status", "nothing", "abort", "exit", "hang"]
PATIENCE = 12  # seconds until a run that hangs is interrupted
LIMIT = 40     # seconds until a run that cannot be interrupted is killed

CONFIG = """[model]
input = [6]
layers = [ { type = "linear", features = 5, activation = "relu" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 24
classes = 3
[training]
global_batch_size = 8
epochs = 1
[job]
dump_folder = "out"
"""


def functions(tables):
    return [f"{table}.{name}" for table, names in tables.items() for name in names.split()]


class Row:
    """One run."""

    def __init__(self, arguments, how, function):
        self.how, self.function = how, function
        self.interrupted = False
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "c.toml").write_text(CONFIG)
            communicator = function.startswith("communicator.")
            which = "communicator" if communicator else "device"
            environment = dict(os.environ, RUNTIME_PLUGIN_PATH=os.path.join(arguments.plugins, which),
                               RUNTIME_MISBEHAVE=f"{how}:{function}", OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="1",
                               XDG_CACHE_HOME=folder, HOME=folder)
            command = [arguments.runtime, "train", "c.toml"]
            if communicator:
                command += ["--nproc", "2", "--set", "comm.backend=template_communicator", "--set", "device.backend=reference",
                            "--set", "comm.timeout_s=5"]
            else:
                command += ["--set", "device.backend=simulated"]
            self.run(command, folder, environment)
            self.trained = pathlib.Path(folder, "out", "weights.safetensors").exists()

    def run(self, command, folder, environment):
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        for limit, sign in [(PATIENCE, signal.SIGINT), (3, signal.SIGINT), (LIMIT - PATIENCE - 3, signal.SIGKILL)]:
            try:
                self.text = process.communicate(timeout=limit)[0]
                break
            except subprocess.TimeoutExpired:
                self.interrupted = True
                os.killpg(process.pid, sign)
        else:
            self.text = process.communicate()[0]
        self.code = process.returncode
        self.seconds = time.monotonic() - begin

    def fault(self):
        """Why a user should not see this; None if all is well."""
        if self.how == "abort":
            told = self.code == 0 or "killed by signal 6" in self.text or "error: " in self.text
            return None if told and (self.code != 0 or self.trained) else "ends without an error"
        if self.how == "hang":
            return "cannot be interrupted" if self.code == -signal.SIGKILL else None
        if self.interrupted:
            return "hangs"
        if self.code < 0 or self.code >= 128:
            # Memory that a plugin overwrites, or data that have not arrived, cannot be seen from outside.
            if self.how == "nothing" and "error: the process crashes" in self.text:
                return None
            return "the runtime crashes"
        if self.code == 2:
            return "the configuration is at fault"
        if self.code == 1 or "internal" in self.text.lower() and self.how != "throw" and "RT_ERROR_INTERNAL" not in self.text:
            return "the runtime says that it has a fault itself"
        if self.code == 0 and not self.trained:
            return "ends with 0 without weights"
        return None

    def message(self):
        lines = [line for line in self.text.splitlines() if "error" in line.lower()] or self.text.splitlines() or [""]
        return lines[0]

    def line(self):
        ending = "done" if self.code == 0 else f"exit {self.code}" if self.code > 0 else f"signal {-self.code}"
        if self.interrupted:
            ending = "Ctrl-C, " + ending
        words = "" if self.code == 0 else self.message()[:110].replace("|", "/")
        return f"| {self.function} | {self.how} | {ending} | {self.seconds:.1f} s | {words} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--plugins", required=True, help="the folder with the folders device and communicator")
    parser.add_argument("--how", default=",".join(HOW))
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="print the whole output of wrong runs")
    arguments = parser.parse_args()
    arguments.runtime, arguments.plugins = map(os.path.abspath, (arguments.runtime, arguments.plugins))
    wanted = arguments.only.split(",") if arguments.only else functions(DEVICE) + functions(COMMUNICATOR)
    cases = [(how, function) for function in wanted for how in arguments.how.split(",")]
    print("| function | the plugin | the run | after | the first error |\n|---|---|---|---|---|")
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(lambda case: Row(arguments, *case), cases):
            print(row.line(), flush=True)
            if row.fault():
                wrong.append(row)
    for row in wrong:
        print(f"wrong: {row.how}:{row.function}: {row.fault()}" + (f"\n{row.text}" if arguments.verbose else ""))
    print(f"{len(cases)} runs, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
