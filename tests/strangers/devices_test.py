"""Devices that fail, hang, or are still at work when a run ends. The device is the plugin simulated, whose options break it."""

import os
import signal
import subprocess
import time
import unittest

import support

SIMULATED = os.path.join(os.path.dirname(os.path.abspath(support.RUNTIME)), "..", "lib", "runtime", "simulated")

MODEL = """
[model]
preset = "mlp"

[dataset]
name = "synthetic"
samples = 256
classes = 10
last_batch = "drop"

[training]
global_batch_size = 16
steps = 400

[metrics]
log_every_steps = 10

[device]
tune = "off"
graph_capture = false
"""


@unittest.skipUnless(os.path.isdir(SIMULATED), "the plugin simulated was not built")
class Devices(support.Situation):
    def setUp(self):
        super().setUp()
        self.write("job.toml", MODEL)

    def arguments(self, command, *settings):
        keys = ["device.backend=simulated", "job.dump_folder=run", "job.overwrite=true", *settings]
        return [*command.split(), *(part for key in keys for part in ("--set", key))]

    def environment(self, **variables):
        return {"RUNTIME_PLUGIN_PATH": os.path.normpath(SIMULATED), **variables}

    def run_on(self, command, *settings, code=0, **variables):
        """Runs a command on the simulated device and returns what it printed."""
        return self.runtime(*self.arguments(command, *settings), code=code, environment=self.environment(**variables))

    def last_step(self):
        return max([line["step"] for line in self.metrics("run")], default=0)


class EndsWithWorkUnderWay(Devices):
    """The validation of plugins says who frees memory that queued work still uses."""

    def ends(self, command, *settings, code):
        output = self.run_on(command, "plugins.validate=true", *settings, code=code)
        self.assertNotIn("validation:", output)
        return output

    def test_a_loss_that_is_no_number(self):
        self.assertIn("the loss of step", self.ends("train job.toml --max-steps 6", "optimizer.lr=1e30", code=6))

    def test_the_same_on_two_ranks(self):
        self.ends("train job.toml --nproc 2 --max-steps 6", "optimizer.lr=1e30", code=6)

    def test_the_same_with_asynchronous_updates(self):
        self.ends("train job.toml --nproc 2 --max-steps 6", "optimizer.lr=1e30", "parallelism.update=asynchronous", code=6)

    def test_a_launch_that_is_refused(self):
        for command in ("train job.toml --max-steps 6", "bench job.toml --steps 4", "verify job.toml --against reference --steps 2"):
            self.assertIn("refuse_launch", self.ends(command, "device.simulated.refuse_launch=sgd", code=3))

    def test_a_launch_that_fails_later(self):
        for command in ("train job.toml --max-steps 30", "bench job.toml --steps 30", "verify job.toml --against reference --steps 9"):
            self.assertIn("injected fault",
                          self.ends(command, "device.simulated.fail_launch=sgd", "device.simulated.fail_after=5", code=3))

    def test_operations_on_the_host(self):
        self.ends("train job.toml --max-steps 6", "optimizer.lr=1e30", "device.host_fallback=reference", "device.simulated.refuse=matmul", code=6)


class Fails(Devices):
    SETTINGS = ("device.simulated.fail_launch=matmul", "device.simulated.fail_after=200")

    def test_the_next_result_says_so_and_names_the_layer(self):
        output = self.run_on("train job.toml", *self.SETTINGS, "metrics.log_every_steps=1", code=3)
        self.assertRegex(output, r"error: .*layer '[^']+': simulated:0: matmul: injected fault in launch 201 ")
        self.assertLess(self.last_step(), 60)

    def test_a_plugin_of_earlier_headers_is_asked_at_every_line(self):
        output = self.run_on("train job.toml", *self.SETTINGS, code=3, RUNTIME_SIMULATED_MINOR="1")
        self.assertIn("injected fault in launch 201 ", output)
        self.assertLess(self.last_step(), 60)


class Hangs(Devices):
    SETTINGS = ("device.simulated.slow_launch=90", "device.simulated.slow_ms=3600000")

    def test_a_timeout_ends_every_command(self):
        for command in ("train job.toml", "bench job.toml", "verify job.toml --against reference --steps 9"):
            output = self.run_on(command, *self.SETTINGS, "device.timeout_s=2", code=3)
            self.assertRegex(output, r"error: the device has not answered for \d+ s, longer than device.timeout_s: "
                                     r"simulated:0 stream \d+, launched last: layer '")

    def test_a_stream_without_launches_names_those_that_it_waits_for(self):
        output = self.run_on("train job.toml --nproc 2", *self.SETTINGS, "device.timeout_s=2", code=3)
        self.assertRegex(output, r"error: the device has not answered .*: simulated:\d stream \d+, launched last: layer '")

    def start(self, *settings):
        """Begins to train and returns the process when it has printed the loss of a step."""
        process = subprocess.Popen([support.RUNTIME, *self.arguments("train job.toml", "metrics.log_every_steps=1", *settings)],
                                   cwd=self.folder, env={**os.environ, **self.environment()}, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        while not process.stdout.readline().startswith("{"):
            self.assertIsNone(process.poll())
        return process

    def test_a_signal_ends_it_unsaved(self):
        process = self.start(*self.SETTINGS)
        time.sleep(2)  # for the steps up to the launch that hangs
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 3, output)
        self.assertRegex(output, r"SIGTERM: the device has not answered for \d+ s: simulated:0 stream \d+, launched last: layer '.*"
                                 r"the program ends without saving")
        self.assertFalse(os.path.exists(self.path("run", "weights.safetensors")))

    def test_a_signal_saves_what_a_slow_device_computes(self):
        process = self.start("device.simulated.slow_launch=90", "device.simulated.slow_ms=4000", "training.steps=4000")
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 143, output)
        self.assertTrue(os.path.exists(self.path("run", "weights.safetensors")))


if __name__ == "__main__":
    support.main()
