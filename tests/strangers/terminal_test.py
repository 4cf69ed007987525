"""What the program prints, and where: pipes that are closed, terminals without a name, hints of a message."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import unicodedata

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


class Shown(Words):
    def on_terminal(self, *arguments, columns=80, variables=None, errors=True):
        """What a terminal shows of a command in an environment with these variables beside PATH; `errors`: also of the standard error
        output."""
        environment = {name: os.environ[name] for name in ("PATH", "OMP_WAIT_POLICY", "HOME") if name in os.environ}
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        with subprocess.Popen([support.RUNTIME, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=slave,
                              stderr=slave if errors else subprocess.DEVNULL,
                              env={**environment, **({"TERM": "xterm"} if variables is None else variables)}) as process:
            os.close(slave)
            text = b""
            try:
                while chunk := os.read(master, 4096):
                    text += chunk
            except OSError:  # the last process with the terminal has ended
                pass
        os.close(master)
        self.assertEqual(process.returncode, 0, text)
        return text.decode().replace("\r\n", "\n")


class Terminals(Shown):
    def shown(self, variables):
        return self.on_terminal("train", "job.toml", "--set", "job.dump_folder=run", "--set", "job.overwrite=true", variables=variables)

    def test_a_terminal_without_a_name_gets_no_escape_sequences(self):
        for variables in ({}, {"TERM": ""}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", self.shown(variables), variables)
        self.assertIn("\x1b", self.shown({"TERM": "xterm"}))


def columns_of(line):
    """The columns that a terminal takes for a line."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


class Widths(Shown):
    """Nothing is broken by the terminal but what has to be copied as one line: a command, or a path."""

    SWEEP = 'config = "job.toml"\nfolder = "sweep"\n[parameters]\noptimizer.lr = [0.01, 0.1]\n' \
            "optimizer.weight_decay = [0.0, 0.1]\nlr_scheduler.warmup_steps = [0, 1]\ntraining.global_batch_size = [8]\n"

    def check(self, *command, wanted=()):
        for columns in (60, 80, 120):
            text = re.sub("\r[^\n]*\x1b\\[K", "", self.on_terminal(*command, columns=columns, errors=False))
            for line in text.splitlines():
                whole = line.startswith("next: runtime ") or any(len(word) > columns - 30 for word in line.split())
                if not whole:
                    self.assertLessEqual(columns_of(line), columns, f"{command}\n{line}")
            for word in wanted:
                self.assertIn(word, text)

    def test_tables_fit(self):
        names = "layers = [ { type = \"linear\", features = 3, name = \"" + "a_rather_long_name_" * 4 + "\" } ]"
        self.write("job.toml", JOB.replace('layers = [ { type = "linear", features = 3 } ]', names))
        self.check("plan", "job.toml", wanted=["phase", "implement", "MFLOP", "buffer", "ranks"])
        self.check("plan", "job.toml", "--world-size", "2", "--passes", wanted=["operations", "collective", "prediction"])
        self.check("bench", "job.toml", "--layers", "--steps", "1", wanted=["layer", "operation", "sum"])
        self.check("bench", "job.toml", "--steps", "1")
        self.check("model", "job.toml", wanted=["layer", "parameters"])
        self.check("bench", "comm", "--max-bytes", "1K", "--min-bytes", "1K", wanted=["collective", "busbw"])

    def test_a_run_and_its_profile_fit(self):
        self.check("train", "job.toml", "--set", "job.dump_folder=run", "--set", "job.overwrite=true", "--set", "profiling.enabled=true",
                   "--set", "profiling.wait=1", "--set", "profiling.warmup=1", "--set", "profiling.active=2",
                   wanted=["epoch 1/1", "waiting for data", "best validation loss"])

    def test_lists_fit(self):
        for command in (["devices"], ["plugins", "list"], ["plugins", "info", "cpu"]):
            self.check(*command, wanted=["cpu"])

    def test_help_of_programs_of_their_own_fits(self):
        for command in (["sweep"], ["tune"], ["tune", "lr"], ["tune", "batch"], ["report"], ["bench"], ["bench", "comm"], ["verify"]):
            self.check(*command, "--help", wanted=["--help"])

    def test_comparisons_fit(self):
        self.check("verify", "job.toml", "--against", "reference", "--steps", "1", wanted=["agree"])

    def test_the_table_and_the_plot_of_a_sweep_fit(self):
        self.write("sweep.toml", self.SWEEP)
        self.runtime("sweep", "sweep.toml")
        for columns in (60, 80, 120):
            text = re.sub("\r[^\n]*\x1b\\[K", "", self.on_terminal("sweep", "sweep.toml", "--resume", columns=columns))
            for line in text.splitlines():
                self.assertLessEqual(columns_of(line), columns, text)
            self.assertIn("validation_loss", text)
            self.assertIn(" a: ", text)

    def test_the_search_of_a_batch_size_fits(self):
        self.check("tune", "batch", "job.toml", "--steps", "1", "--start", "8", "--most", "16", wanted=["batch size", "fastest that was"])

    def test_the_variable_columns_says_how_wide(self):
        text = self.on_terminal("plan", "job.toml", columns=200, variables={"TERM": "xterm", "COLUMNS": "60"})
        self.assertIn("not shown in 60 columns: ", text)
        self.assertIn("not shown in 80 columns: ", self.on_terminal("plan", "job.toml", columns=0))

    def test_a_pipe_gets_everything(self):
        text = self.runtime("plan", "job.toml", environment={"COLUMNS": "60"})
        self.assertNotIn("not shown", text)
        self.assertRegex(text, r"phase +layer +operation +implementation +output +MFLOP")


class WorkThatTakesLong(Shown):
    SCALING = ("bench", "job.toml", "--scaling", "1,2", "--steps", "1", "--rounds", "2")
    SWEEP = 'config = "job.toml"\nfolder = "sweep"\n[set]\nmetrics.log_every_steps = 1\n[parameters]\noptimizer.lr = [0.1, 0.2]\n'

    def test_scaling_says_what_it_measures(self):
        text = self.on_terminal(*self.SCALING)
        self.assertIn("\rround 1 of 2: measuring 1 rank of up to 2\x1b[K", text)
        self.assertIn("\rround 2 of 2: measuring 2 ranks of up to 2\x1b[K", text)
        self.assertIn("\r\x1b[Kjob on ", text, "the line is removed before the table")
        self.assertIn("round 2 of 2: measuring 2 ranks of up to 2\n", self.runtime(*self.SCALING))

    def test_a_run_that_fails_is_heard_at_once(self):
        said = self.runtime(*self.SCALING, "--set", "training.global_batch_size=1", code=2)
        self.assertLess(said.index("measuring 2 ranks"), said.index("error: "))
        self.assertIn("the run of 2 ranks failed, see above", said)

    def test_a_sweep_says_how_far_its_trials_are(self):
        self.write("sweep.toml", self.SWEEP)
        text = self.on_terminal("sweep", "sweep.toml", variables={"TERM": "xterm"})
        self.assertIn("\r[0/2] trial 0: begins\x1b[K", text)
        self.assertIn("\r[1/2] trial 1: begins\x1b[K", text)
        self.assertIn("[2/2] trial 1: optimizer.lr=0.2: validation_loss ", text)


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
