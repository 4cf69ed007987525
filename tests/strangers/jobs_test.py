"""Jobs of several ranks as launchers and clusters start them, and machines that give a job less than it asks for."""

import os
import resource
import subprocess
import sys

import support

MODEL = """
[model]
preset = "mlp"

[dataset]
name = "synthetic"
samples = 64
classes = 10

[training]
global_batch_size = 16
steps = 4

[validation]
every_epochs = 0

[device]
backend = "cpu"
"""

# Variables of whatever runs this test must not reach the runs.
LAUNCHERS = ("SLURM_", "PET_", "FLUX_", "MV2_", "OMPI_", "PMI", "MPI_", "RUNTIME_RANK", "RUNTIME_WORLD", "RANK", "WORLD_SIZE", "LOCAL_",
             "JOB_COMPLETION_INDEX", "TORCHELASTIC_")


class Jobs(support.Situation):
    def setUp(self):
        super().setUp()
        for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
            self.addCleanup(os.environ.__setitem__, name, os.environ.pop(name))
        self.config = self.write("run.toml", MODEL)

    def train(self, *arguments, **options):
        return self.runtime("train", self.config, "--set", "job.dump_folder=run", "--set", "job.overwrite=true", *arguments, **options)

    def test_one_of_several_processes_does_not_train_alone(self):
        for variables in ({"JOB_COMPLETION_INDEX": "0"}, {"PET_NNODES": "2"}, {"SLURM_NTASKS": "4"}, {"FLUX_JOB_SIZE": "2"},
                          {"MV2_COMM_WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}):
            with self.subTest(variables=variables):
                said = self.train(code=2, environment=variables)
                for name, value in variables.items():
                    self.assertIn(f"{name} = '{value}'", said)
                self.assertIn("RUNTIME_RANK=0 and RUNTIME_WORLD_SIZE=1", said)
                self.assertFalse(os.path.exists(self.path("run", "weights.safetensors")))

    def test_who_means_to_be_alone_says_so(self):
        self.train(environment={"JOB_COMPLETION_INDEX": "0", "RUNTIME_RANK": "0", "RUNTIME_WORLD_SIZE": "1"})
        self.train("--nproc", "2", environment={"SLURM_NTASKS": "2"})
        self.runtime("plan", self.config, environment={"SLURM_NTASKS": "4"})

    def test_left_over_variables_are_named(self):
        said = self.train("--set", "comm.init_timeout_s=1", code=4,
                          environment={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"})
        self.assertIn("because RANK is set (RANK and WORLD_SIZE): unset RANK", said)

    def test_the_zero_stage_of_the_file_is_named(self):
        said = self.runtime("config", "check", self.config, "--set", "parallelism.zero_stage=3", "--set", "debug.deterministic=true", "--set",
                            "training.max_norm=1", code=2)
        self.assertIn("with zero_stage = 3 the norm", said)

    def with_descriptors(self, soft, hard, *arguments):
        done = subprocess.run([support.RUNTIME, "train", self.config, "--set", "job.dump_folder=run", *arguments], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        return done.returncode, done.stdout

    def test_a_low_soft_limit_for_open_files_is_raised(self):
        code, said = self.with_descriptors(16, 1024, "--nproc", "2")
        self.assertEqual(code, 0, said)

    def test_a_low_hard_limit_for_open_files_is_named(self):
        listed = self.runtime("plugins", "list")
        if "gloo" not in listed:
            self.skipTest("ranks as processes need the plugin gloo")
        code, said = self.with_descriptors(24, 24, "--nproc", "8", "--set", "comm.backend=gloo")
        self.assertEqual(code, 4, said)
        self.assertRegex(said, r"the launcher of 8 ranks needs \d+ open files .*ulimit -n \d+")

    def test_a_plan_of_many_micro_steps_needs_little_memory(self):
        small = self.peak_of_plan("training.global_batch_size=64")
        large = self.peak_of_plan("training.global_batch_size=16384")
        self.assertLess(large, small + 200 * 1024, "KiB")

    def peak_of_plan(self, batch):
        """The most memory of a plan with a micro-step for each sample, in KiB."""
        code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
                "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        text = subprocess.run([sys.executable, "-c", code, support.RUNTIME, "plan", self.config, "--set", "dataset.samples=16384", "--set", batch,
                               "--set", "training.micro_batch_size=1", "--set", "device.tune=off"], stdout=subprocess.PIPE, text=True, timeout=120,
                              check=True).stdout
        returned, peak = map(int, text.split())
        self.assertEqual(returned, 0)
        return peak

    def test_loopback_between_two_machines_is_named(self):
        if "gloo" not in self.runtime("plugins", "list"):
            self.skipTest("ranks as processes need the plugin gloo")
        machine = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run([*machine, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user may not make networks")
        ranks = [
            subprocess.Popen([*machine, os.path.abspath(support.RUNTIME), "train", self.config, "--set", "job.dump_folder=run", "--set",
                              "comm.backend=gloo", "--set", "comm.init_timeout_s=3", "--set", "comm.rendezvous_address=" + self.path("meeting")],
                             cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "RUNTIME_RANK": str(rank), "RUNTIME_WORLD_SIZE": "2"}) for rank in range(2)
        ]
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [4, 4], said)
        self.assertIn("this rank has published 127.0.0.1, which no other machine reaches", "".join(said))

    def test_without_proc(self):
        hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user may not mount")
        for arguments in ([], ["--nproc", "2"]):
            done = subprocess.run([*hidden, os.path.abspath(support.RUNTIME), "train", self.config, "--set", "job.dump_folder=run", "--set",
                                   "job.overwrite=true", *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    support.main()
