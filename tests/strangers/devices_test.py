"""Devices that fail, or are still at work when a run ends. The device is the plugin simulated, whose options break it."""

import os
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


if __name__ == "__main__":
    support.main()
