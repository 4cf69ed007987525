#!/usr/bin/env python3
"""Follows plugins/TUTORIAL.md: makes plugins, builds them against an installation, checks them, trains on them.

    tutorial.py --runtime RUNTIME --prefix PREFIX --source FOLDER [--cmake CMAKE] [--kind KIND...]

PREFIX has the component plugin_sdk. A device then gets the kernel of the tutorial, with the very text of that page.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile


OPERATION_CONFIG = """
[model]
input = [6]
layers = [ { type = "linear", features = 5 }, { type = "NAME.scaled_tanh", slope = 0.5 }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 24
classes = 3
[training]
global_batch_size = 8
epochs = 2
[optimizer]
name = "NAME.descent"
lr = 0.1
[device]
backend = "reference"
"""


class Tutorial:
    def __init__(self, arguments, folder, kind):
        self.arguments, self.folder, self.kind = arguments, pathlib.Path(folder), kind
        self.name = f"tutorial_{kind}"
        self.plugins = self.folder / self.name / "build/lib/runtime/plugins"
        self.library = self.plugins / f"lib{self.name}.so"

    def run(self, *command, expect=""):
        environment = dict(os.environ, RUNTIME_PLUGIN_PATH=str(self.plugins), OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="1")
        command = [str(word) for word in command]
        result = subprocess.run(command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        print("$", " ".join(command), "\n ", result.stdout.strip().splitlines()[-1:], flush=True)
        if result.returncode != 0 or expect not in result.stdout:
            sys.exit(f"{result.stdout}\nexit code {result.returncode}; expected 0 and \"{expect}\"")
        return result.stdout

    def runtime(self, *words, expect=""):
        return self.run(self.arguments.runtime, *words, expect=expect)

    def make(self):
        self.runtime("plugins", "new", "--kind", self.kind, self.name, expect="next:")
        self.run(self.arguments.cmake, "-S", self.name, "-B", f"{self.name}/build", "-DCMAKE_BUILD_TYPE=Release",
                 f"-DCMAKE_PREFIX_PATH={self.arguments.prefix}")
        self.build()

    def build(self):
        self.run(self.arguments.cmake, "--build", f"{self.name}/build")

    def train(self, *settings, expect="done: 3 steps"):
        words = [word for setting in settings for word in ("--set", setting)]
        return self.runtime("train", self.arguments.source / "configs/bench_lenet.toml", "--max-steps", "3", "--set",
                            "training.global_batch_size=8", *words, expect=expect)

    def add_matmul(self):
        """Step 4."""
        page = (self.arguments.source / "plugins/TUTORIAL.md").read_text()
        function, row = re.findall(r"```cpp\n(.*?)```", page, flags=re.S)
        file = self.folder / self.name / "kernel.cpp"
        text = file.read_text()
        for what, by in [("constexpr struct {", function + "\nconstexpr struct {"),
                         ("    {RT_OP_SCALE, plan_scale},\n", "    {RT_OP_SCALE, plan_scale},\n" + row),
                         ('#include "rt/sdk/expect.h"\n', '#include "rt/sdk/expect.h"\n#include "rt/sdk/matmul.h"\n')]:
            if what not in text:
                sys.exit(f"the template has no line {what!r}, above or below which the tutorial adds text")
            text = text.replace(what, by)
        file.write_text(text)

    def device(self):
        self.runtime("plugins", "check", self.library, "--quick", expect=" 0 failed")
        settings = f"device.backend={self.name}", "device.host_fallback=reference"
        self.train(*settings, expect="matmul runs on reference:0")
        self.add_matmul()
        self.build()
        checked = self.runtime("plugins", "check", self.library, "--only", "kernels")
        if "passed  kernels      matmul" not in checked:
            sys.exit(checked)
        if "matmul runs on" in self.train(*settings):
            sys.exit("matmul still runs on the fallback device")

    def communicator(self):
        self.runtime("plugins", "check", self.library, "--only", "communicator", expect=" 0 failed")
        self.runtime("train", self.arguments.source / "configs/bench_lenet.toml", "--max-steps", "3", "--nproc", "2", "--set",
                     f"comm.backend={self.name}", "--set", "device.backend=reference", "--set",
                     "training.global_batch_size=8", expect="done: 3 steps")

    def operation(self):
        self.runtime("plugins", "check", self.library, "--quick", expect=" 0 failed")
        self.runtime("plugins", "info", self.name, expect=f"{self.name}.scaled_tanh")
        (self.folder / "config.toml").write_text(OPERATION_CONFIG.replace("NAME", self.name))
        self.runtime("train", "config.toml", expect="done: 6 steps")
        self.runtime("verify", "config.toml", "--gradients")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", type=pathlib.Path, required=True)
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--kind", action="append")
    arguments = parser.parse_args()
    for kind in arguments.kind or ["device", "communicator", "operation"]:
        with tempfile.TemporaryDirectory() as folder:
            tutorial = Tutorial(arguments, folder, kind)
            tutorial.make()
            getattr(tutorial, kind)()


main()
