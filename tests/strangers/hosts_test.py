"""Jobs on several hosts: ranks without a common folder. Each host is a working folder, so that a relative run folder is another one for
each rank; they meet in a folder outside of these."""

import json
import os
import re
import shutil
import subprocess
import time

import support

MODEL = """
[model]
input = [3, 6, 6]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, padding = 1 },
  { type = "batch_norm", activation = "tanh" },
  { type = "flatten" },
  { type = "dropout", probability = 0.2 },
  { type = "linear", features = 3 },
]

[dataset]
name = "synthetic"
samples = 40
classes = 3
validation_split = 0.2

[training]
global_batch_size = 8
epochs = 3

[optimizer]
name = "adamw"
lr = 0.05

[checkpoint]
interval_minutes = 0
interval_steps = 3
keep_latest = 0

[comm]
backend = "gloo"
rendezvous = "file"

[device]
backend = "cpu"
tune = "off"
"""


class Hosts(support.Situation):
    def setUp(self):
        super().setUp()
        if "gloo" not in self.runtime("plugins", "list"):
            self.skipTest("ranks as processes need the plugin gloo")
        self.write("run.toml", MODEL)
        for host in ("a", "b", "shared"):
            os.makedirs(self.path(host))

    def ranks(self, hosts, *arguments, code=0, environment=None):
        """Trains with a rank on each of the hosts in ./run of each, and returns what each rank has printed."""
        shutil.rmtree(self.path("meeting"), ignore_errors=True)
        processes = []
        for rank, host in enumerate(hosts):
            command = [os.path.abspath(support.RUNTIME), "train", self.path("run.toml"), "--set", "job.dump_folder=run", "--set",
                       "comm.rendezvous_address=" + self.path("meeting"), *arguments]
            processes.append(subprocess.Popen(command, cwd=self.path(host), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                              stdin=subprocess.DEVNULL,
                                              env={**os.environ, "RUNTIME_RANK": str(rank), "RUNTIME_WORLD_SIZE": str(len(hosts)),
                                                   **(environment or {})}))
        said = [process.communicate(timeout=120)[0] for process in processes]
        for process, text in zip(processes, said):
            self.assertEqual(process.returncode, code, "\n".join(said))
        return said

    def lines(self, host):
        """The lines of metrics.jsonl without times."""
        with open(self.path(host, "run", "metrics.jsonl"), encoding="utf-8") as file:
            return [{key: value for key, value in json.loads(line).items()
                     if not re.search(r"second|per_|joules|bytes|watts|device", key)} for line in file]

    def content(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def checkpoints(self, host):
        folder = self.path(host, "run", "checkpoints")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


class WithoutACommonFolder(Hosts):
    def expect_as_shared(self, *settings):
        """Stops a run on two hosts, goes on, and expects the files of a run whose ranks share a folder and that was not stopped."""
        whole = self.ranks(["shared", "shared"], *settings)
        self.assertNotIn("not every rank sees", "".join(whole))
        said = self.ranks(["a", "b"], *settings, "--max-steps", "7")
        self.assertIn("not every rank sees run/checkpoints, so that rank 0 saves the run there for all of them", said[0])
        # That of step 6 may be put off to the end.
        self.assertEqual(set(self.checkpoints("a")) - {"step-000000006"}, {"step-000000003", "step-000000007"})
        self.assertFalse(os.path.exists(self.path("b", "run")))
        self.assertIn("whole", self.runtime("checkpoint", "verify", self.path("a", "run")))
        said = self.ranks(["a", "b"], *settings, "--resume", "auto")
        self.assertIn("resumed from run/checkpoints/step-000000007, saved after step 7", said[0])
        self.assertEqual(self.content("a", "run", "weights.safetensors"), self.content("shared", "run", "weights.safetensors"))
        self.assertEqual(self.lines("a"), self.lines("shared"))
        self.assertFalse(os.path.exists(self.path("b", "run")))
        # The last step has all that a shared folder has, whoever has written which tensor.
        last = self.checkpoints("shared")[-1]
        self.assertIn(last, self.checkpoints("a"))
        for host in ("a", "shared"):
            self.runtime("checkpoint", "reshard", self.path(host, "run", "checkpoints", last), "--output", self.path(host, "joined"))
        self.assertEqual(self.content("a", "joined", "rank-0.safetensors"), self.content("shared", "joined", "rank-0.safetensors"))

    def test_data_parallelism(self):
        self.expect_as_shared()

    def test_zero_partitions(self):
        self.expect_as_shared("--set", "parallelism.zero_stage=2")

    def test_zero_partitions_of_parameters(self):
        self.expect_as_shared("--set", "parallelism.zero_stage=3")

    def test_tensor_parallelism(self):
        self.expect_as_shared("--set", "parallelism.tensor=2")

    def test_the_best_is_restored(self):
        settings = ["--set", "checkpoint.keep_best=1", "--set", "early_stopping.patience=1", "--set", "early_stopping.restore_best=true", "--set", "validation.every_steps=1",
                    "--set", "optimizer.lr=0.5", "--set", "training.epochs=40"]
        for hosts in (["shared", "shared"], ["a", "b"]):
            self.assertIn("best validation", self.ranks(hosts, *settings)[0])
        self.assertEqual(self.content("a", "run", "weights.safetensors"), self.content("shared", "run", "weights.safetensors"))

    def test_an_asynchronous_run_goes_on(self):
        settings = ["--set", "parallelism.update=asynchronous", "--set", "parallelism.max_staleness=1"]
        self.ranks(["a", "b"], *settings, "--max-steps", "6")
        self.assertIn("step-000000006", self.checkpoints("a"))
        self.assertIn("saved after step 6", self.ranks(["a", "b"], *settings, "--resume", "auto")[0])

    def test_a_checkpoint_with_a_nan_is_not_saved(self):
        said = self.ranks(["a", "b"], "--set", "optimizer.lr=1e30", "--set", "parallelism.zero_stage=3", "--set", "training.epochs=1",
                          code=6)
        self.assertEqual(self.checkpoints("a"), [], said)

    def test_the_newest_checkpoint_on_another_host_is_named(self):
        self.ranks(["a", "b"], "--max-steps", "3")
        said = self.ranks(["b", "a"], "--resume", "auto", code=5)
        for text in said:
            self.assertRegex(text, r"rank 1.* sees run/checkpoints/step-000000003, which rank 0 does not see, so that the run would go on "
                             "from step 0")

    def test_a_copied_folder_is_read_by_each_rank(self):
        self.ranks(["a", "b"], "--max-steps", "3")
        shutil.copytree(self.path("a", "run"), self.path("b", "run"))
        self.assertIn("saved after step 3", self.ranks(["a", "b"], "--resume", "auto")[0])
        os.remove(self.path("b", "run", "checkpoints", "step-000000003", "rank-1.safetensors"))  # half a copy
        self.assertIn("saved after step 3", self.ranks(["a", "b"], "--resume", "run/checkpoints/step-000000003", "--set",
                                                       "job.dump_folder=other")[0])


class NamesOfHosts(Hosts):
    def setUp(self):
        super().setUp()
        if subprocess.run([*self.on("node-a"), "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user may not give a host another name")

    @staticmethod
    def on(host):
        return ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"]

    def start(self, rank, host, *arguments):
        command = [*self.on(host), os.path.abspath(support.RUNTIME), "train", self.path("run.toml"), "--set", "job.dump_folder=run", "--set",
                   "comm.rendezvous_address=" + self.path("meeting"), *arguments]
        return subprocess.Popen(command, cwd=self.path("shared"), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, env={**os.environ, "RUNTIME_RANK": str(rank), "RUNTIME_WORLD_SIZE": "2"})

    def test_of_ranks_that_disagree(self):
        for hosts, names in ((("node-a", "node-b"), ("rank 0 (node-a)", "rank 1 (node-b)")), (("node-a", "node-a"), ("rank 0", "rank 1"))):
            ranks = [self.start(rank, host, "--set", f"optimizer.lr=0.{rank + 1}") for rank, host in enumerate(hosts)]
            said = [rank.communicate(timeout=60)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [4, 4], said)
            self.assertIn(f'{names[0]} has "optimizer.lr = 0.1", {names[1]} has "optimizer.lr = 0.2"', said[0])

    def test_of_a_rank_that_is_lost(self):
        ranks = [self.start(rank, host, "--set", "training.epochs=1000000", "--set", "checkpoint.interval_steps=0")
                 for rank, host in enumerate(("node-a", "node-b"))]
        metrics = self.path("shared", "run", "metrics.jsonl")
        end = time.monotonic() + 60
        while not (os.path.exists(metrics) and os.path.getsize(metrics) > 0) and time.monotonic() < end:
            time.sleep(0.01)
        ranks[1].kill()
        ranks[1].communicate(timeout=60)
        said = ranks[0].communicate(timeout=60)[0]
        self.assertEqual(ranks[0].returncode, 4, said)
        self.assertIn("rank 1 (node-b) of 2 is lost", said)
        self.assertIn("on rank 0 (node-a)", said)


if __name__ == "__main__":
    support.main()
