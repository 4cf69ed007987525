"""Jobs of many ranks of which one hangs or is killed: the message names that rank, and no other."""

import os
import re
import signal
import subprocess
import threading
import unittest

import support

BUILD = os.path.dirname(os.path.dirname(os.path.realpath(support.RUNTIME)))
CHAOS = os.path.join(BUILD, "tests", "chaos_plugin")
PLUGINS = os.path.join(BUILD, "lib", "runtime", "plugins")

JOB = """
[dataset]
name = "synthetic"
classes = 4
samples = 4096
[model]
input = [16]
layers = [
  {type = "linear", features = 32}, {type = "relu"}, {type = "linear", features = 32}, {type = "relu"},
  {type = "linear", features = 4},
]
[training]
global_batch_size = 64
epochs = 100000
[optimizer]
name = "sgd"
lr = 0.01
[validation]
every_steps = 1000000000
"""


def needs_gloo(test):
    return unittest.skipUnless(os.path.exists(os.path.join(PLUGINS, "libcollectives_gloo.so")), "the plugin gloo was not built")(test)


class Hangs(support.Situation):

    @needs_gloo
    @unittest.skipUnless(os.path.exists(CHAOS), "the plugin chaos was not built")
    def test_the_rank_of_a_mesh_that_hangs_is_named_once(self):
        """Tensor 2, pipeline 2, data 2; a kernel of rank 5 never returns, while its threads for the network go on."""
        self.write("job.toml", JOB)
        text = self.runtime(
            "train", "job.toml", "--nproc", "8", "--set", "parallelism.tensor=2", "--set", "parallelism.pipeline=2",
            "--set", "comm.backend=gloo", "--set", "comm.timeout_s=3", "--set", "device.backend=chaos", code=4,
            environment={"RUNTIME_PLUGIN_PATH": CHAOS, "CHAOS_PLUGIN": "launch:how=hang:after=2000:rank=5",
                         "CHAOS_PLUGIN_INNER": os.path.join(PLUGINS, "libbackend_reference.so"), "CHAOS_LOG": self.path("log")})
        said = re.findall(r"rank (\d) of 8 is (\w+): it answers, but has not taken part in (\w+) #\d+ (?:from rank \d |to rank \d )?(?:of|along) the (\w+) axis", text)
        self.assertEqual([rank for rank, _, _, _ in said], ["5"], text)
        self.assertNotIn("the network between them is down", text)


class Kills(support.Situation):

    @needs_gloo
    def test_one_survivor_names_a_killed_rank_and_the_launcher_says_so_last(self):
        self.write("job.toml", JOB)
        command = [support.RUNTIME, "train", "job.toml", "--nproc", "16", "--set", "comm.backend=gloo", "--set", "device.threads=1",
                   "--set", "device.backend=reference", "--set", "metrics.log_every_steps=1"]
        job = subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watchdog = threading.Timer(100, job.kill)
        watchdog.start()
        try:
            self.assertTrue(any('"step":20,' in line for line in job.stdout), "it has not come to step 20")
            os.kill(self.rank(5), signal.SIGKILL)
            _, text = job.communicate()
        finally:
            watchdog.cancel()
            job.kill()
        self.assertEqual(job.returncode, 4, text)
        blamed = re.findall(r"^\[rank \d+\] error: .*?rank (\d+) of 16 is", text, re.MULTILINE)
        self.assertEqual(blamed, ["5"], text)
        self.assertRegex(text.splitlines()[-1], r"^error: the job has ended because rank 5 \(pid \d+\) was killed by signal 9 \(SIGKILL\)$")

    def rank(self, number):
        """The process of a rank of the job in this test's folder."""
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                if f"RUNTIME_RANK={number}".encode() in variables and os.readlink(f"/proc/{process}/cwd") == os.path.realpath(self.folder):
                    return int(process)
            except OSError:
                continue
        return self.fail(f"rank {number} is not there")


if __name__ == "__main__":
    support.main()
