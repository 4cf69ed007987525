"""What the program prints, and where: pipes that are closed, terminals without a name, hints of a message."""

import os
import pty
import re
import shutil
import struct
import subprocess

import support
from configuration_test import JOB

EM_AARCH64, EM_X86_64 = 183, 62


class Words(support.Situation):
    def setUp(self):
        super().setUp()
        self.write("job.toml", JOB)


class Readers(Words):
    def into_a_closed_pipe(self, *arguments):
        """Runs the program with a standard output whose reader has gone; returns the exit code and the errors."""
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([support.RUNTIME, *arguments], cwd=self.folder, stdout=write, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        os.close(write)
        return done.returncode, done.stderr

    def test_a_reader_that_has_gone_ends_a_command_in_silence(self):
        for command in (["plan", "job.toml"], ["devices"], ["config", "show", "job.toml"], ["config", "schema"], ["--help"],
                        ["plugins", "list"], ["model", "job.toml"], ["train", "--help"], ["bench", "job.toml", "--steps", "1"]):
            self.assertEqual(self.into_a_closed_pipe(*command), (141, ""), command)

    def test_training_goes_on_without_its_reader(self):
        code, errors = self.into_a_closed_pipe("train", "job.toml", "--set", "job.dump_folder=run")
        self.assertEqual(code, 141, errors)
        self.assertNotIn("error:", errors)
        self.assertTrue(os.path.exists(self.path("run", "weights.safetensors")))

    def test_ranks_go_on_without_the_reader(self):
        if "\ngloo" not in "\n" + self.runtime("plugins", "list"):
            self.skipTest("the plugin gloo was not built")
        code, errors = self.into_a_closed_pipe("train", "job.toml", "--nproc", "2", "--set", "comm.backend=gloo", "--set",
                                               "job.dump_folder=run")
        self.assertEqual(code, 141, errors)
        self.assertNotIn("error:", errors)
        self.assertTrue(os.path.exists(self.path("run", "weights.safetensors")))

    def test_a_full_disk_stays_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([support.RUNTIME, "plan", "job.toml"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 5)
        self.assertIn("make room (df)", done.stderr)


class Terminals(Words):
    def shown(self, variables):
        """What a terminal shows of a run in an environment with these variables beside PATH."""
        environment = {name: os.environ[name] for name in ("PATH", "OMP_WAIT_POLICY") if name in os.environ}
        master, slave = pty.openpty()
        with subprocess.Popen([support.RUNTIME, "train", "job.toml", "--set", "job.dump_folder=run", "--set",
                               "job.overwrite=true"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                              env={**environment, **variables}) as process:
            os.close(slave)
            text = b""
            try:
                while chunk := os.read(master, 4096):
                    text += chunk
            except OSError:  # the last process with the terminal has ended
                pass
        os.close(master)
        self.assertEqual(process.returncode, 0, text)
        return text.decode()

    def test_a_terminal_without_a_name_gets_no_escape_sequences(self):
        for variables in ({}, {"TERM": ""}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", self.shown(variables), variables)
        self.assertIn("\x1b", self.shown({"TERM": "xterm"}))


class Hints(Words):
    def test_an_option_that_is_a_key_is_told_how_it_is_set(self):
        for option, key in (("--epochs", "training.epochs"), ("--epochs=3", "training.epochs"), ("--lr", "optimizer.lr"),
                            ("--weight-decay", "optimizer.weight_decay"), ("--training.epochs", "training.epochs"),
                            ("--batch-size", "training.global_batch_size")):
            self.assertIn(f"--set {key}=", self.runtime("train", "job.toml", option, "3", code=2))

    def test_a_command_without_keys_gives_no_such_hint(self):
        self.assertNotIn("--set", self.runtime("devices", "--epochs", "3", code=2))

    def test_gpu_does_not_mean_cpu(self):
        said = self.runtime("train", "job.toml", "--set", "device.backend=gpu", code=3)
        self.assertNotIn("did you mean", said)
        self.assertIn('did you mean "cpu"?', self.runtime("train", "job.toml", "--set", "device.backend=pcu", code=3))

    def test_a_missing_communicator_names_what_installs_it(self):
        said = self.runtime("train", "job.toml", "--nproc", "2", "--set", "comm.backend=missing", code=3)
        self.assertIn("tools/setup.sh --ranks", said)

    def test_installed_configurations_are_named(self):
        folder = re.search(r"Configurations to begin with are in (\S+)\.\n", self.runtime("--help")).group(1)
        self.assertIn(folder, self.runtime("train", "missing.toml", code=2))
        self.assertTrue(os.path.exists(os.path.join(folder, "bench_mlp.toml")), folder)

    def test_a_link_that_a_plugin_does_not_know_is_unknown(self):
        for plugin in (line.split()[0] for line in self.runtime("plugins", "list").splitlines()):
            said = self.runtime("plugins", "info", plugin)
            if "bandwidth unknown" in said or "latency unknown" in said:
                self.assertIn("plan assumes", said)
            else:
                self.assertNotIn("plan assumes", said)

    def test_a_library_of_another_processor_is_called_so(self):
        plugins = os.path.join(os.path.dirname(os.path.dirname(shutil.which(support.RUNTIME))), "lib", "runtime", "plugins")
        name = "libbackend_reference.so"
        with open(os.path.join(plugins, name), "rb") as file:
            library = bytearray(file.read())
        machine = struct.unpack_from("<H", library, 18)[0]
        struct.pack_into("<H", library, 18, EM_X86_64 if machine == EM_AARCH64 else EM_AARCH64)
        said = self.runtime("plugins", "list", environment={"RUNTIME_PLUGIN_PATH": os.path.dirname(self.write("p/" + name, bytes(library)))})
        self.assertIn("is for another processor: got", said)
        self.assertNotIn("No such file", said)


class Completion(Words):
    def offered(self, words):
        script = f"source <({support.RUNTIME} completion bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n" \
                 "_runtime 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\""
        return subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=False, timeout=120).stdout.split()

    def test_commands_of_programs_of_their_own_are_completed(self):
        if "tune" not in self.offered("runtime tun"):
            self.skipTest("runtime-tune was not built")
        self.assertEqual(self.offered("runtime tune b"), ["batch"])
        self.assertIn("--steps", self.offered("runtime tune lr x.toml --s"))
        self.assertIn("training.epochs=", self.offered("runtime tune lr x.toml --set training.ep"))


class NewPlugins(Words):
    def test_the_commands_that_are_printed_find_the_contract(self):
        done = subprocess.run([support.RUNTIME, "plugins", "new", "--kind", "device", "mine"], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
        if done.returncode != 0:
            self.skipTest("runtime-plugins-new or its templates are not installed")
        self.assertRegex(done.stdout, r'cmake -S mine -B mine/build -DCMAKE_PREFIX_PATH="/[^"]+"')


if __name__ == "__main__":
    support.main()
