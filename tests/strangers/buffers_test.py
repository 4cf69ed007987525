"""A device whose buffers are smaller than what a step or the parameters need together, as with OpenCL
(CL_DEVICE_MAX_MEM_ALLOC_SIZE). The device is the plugin simulated, whose largest buffer the environment sets."""

import os
import re
import unittest

import support

SIMULATED = os.path.join(os.path.dirname(os.path.abspath(support.RUNTIME)), "..", "lib", "runtime", "simulated")

LENET = """
[model]
preset = "lenet"

[dataset]
name = "synthetic"
samples = 640
classes = 10

[training]
global_batch_size = 320
steps = 2

[device]
tune = "off"
"""

# Six layers of 64 KiB, of which a buffer of 128 KiB holds one or two with their biases.
MLP = """
[model]
input = [128]

[dataset]
name = "synthetic"
samples = 64
classes = 10
validation_split = 0.25

[training]
global_batch_size = 16
steps = 6

[validation]
every_steps = 3

[metrics]
log_every_steps = 1

[optimizer]
name = "adamw"
lr = 0.01

[device]
tune = "off"
""" + "".join(f"""
[[model.layers]]
type = "linear"
name = "fc{i}"
features = 128

[[model.layers]]
type = "relu"
""" for i in range(6)) + """
[[model.layers]]
type = "linear"
name = "head"
features = 10
"""

SMALL = 128 << 10


@unittest.skipUnless(os.path.isdir(SIMULATED), "the plugin simulated was not built")
class Buffers(support.Situation):
    def run_with(self, largest, command, *settings, code=0):
        """Runs a command on devices whose buffers have at most `largest` bytes; 0: no limit."""
        keys = ["device.backend=simulated", "device.simulated.max_delay_us=0", "device.simulated.poison=true", *settings]
        return self.runtime(*command.split(), *(part for key in keys for part in ("--set", key)), code=code,
                            environment={"RUNTIME_PLUGIN_PATH": os.path.normpath(SIMULATED),
                                         "RUNTIME_SIMULATED_LARGEST_BUFFER": str(largest)})

    def losses(self, run):
        return [(line["step"], line.get("loss"), line.get("validation_loss")) for line in self.metrics(run)]

    def weights(self, run):
        with open(self.path(run, "weights.safetensors"), "rb") as file:
            return file.read()

    def expect_same(self, largest, command, *settings):
        """The run has the same bits with buffers of `largest` bytes as without the limit."""
        for run, limit in (("whole", 0), ("pieces", largest)):
            self.run_with(limit, command, f"job.dump_folder={run}", "job.overwrite=true", *settings)
        self.assertTrue(self.losses("whole"))
        self.assertEqual(self.losses("whole"), self.losses("pieces"))
        self.assertEqual(self.weights("whole"), self.weights("pieces"))


class Arenas(Buffers):
    def setUp(self):
        super().setUp()
        self.write("lenet.toml", LENET)

    def test_a_step_that_is_larger_than_a_buffer(self):
        self.assertGreater(self.memory("plan lenet.toml"), 64)
        self.expect_same(64 << 20, "train lenet.toml --max-steps 2")

    def memory(self, command, *settings):
        """The MiB of the activations that `plan` prints."""
        table = self.run_with(0, command, *settings)
        return float(re.search(r"activations.*\n\S+((?:\s+[0-9.]+ MiB)+)", table).group(1).split(" MiB")[4])

    def test_an_activation_that_alone_is_larger_names_it_and_a_batch_that_fits(self):
        text = self.run_with(4 << 20, "train lenet.toml --max-steps 1", code=3)
        self.assertRegex(text, r"does not fit simulated:0: conv2d.* of layer 'conv1': .* has \d+ bytes, and one buffer there has at most 4194304")
        fits = int(re.search(r"training\.(?:micro|global)_batch_size = (\d+) fits", text).group(1))
        key = re.search(r"training\.(?:micro|global)_batch_size = \d+ fits", text).group(0).split(" ")[0]
        self.run_with(4 << 20, "train lenet.toml --max-steps 1", f"{key}={fits}")

    def test_an_evaluation_computes_a_whole_batch_at_once(self):
        split = "dataset.validation_split=0.5"
        text = self.run_with(4 << 20, "train lenet.toml --max-steps 1", split, "training.micro_batch_size=16", code=3)
        self.assertIn("use a smaller training.global_batch_size", text)
        fits = re.search(r"training\.global_batch_size = \d+ fits", text).group(0)[:-5].replace(" ", "")
        self.run_with(4 << 20, "train lenet.toml --max-steps 1", split, "job.dump_folder=run", fits)
        text = self.run_with(4 << 20, "evaluate lenet.toml --weights run/weights.safetensors", split, code=3)
        fits = re.search(r"training\.global_batch_size = \d+ fits", text).group(0)[:-5].replace(" ", "")
        self.run_with(4 << 20, "evaluate lenet.toml --weights run/weights.safetensors", split, fits)

    def test_plan_and_tune_know_it(self):
        self.assertIn("has at most 4194304", self.run_with(4 << 20, "plan lenet.toml", code=3))
        text = self.run_with(2 << 20, "tune batch lenet.toml --steps 1 --start 8 --precision 0.5")
        self.assertIn("this batch does not fit simulated:0: conv2d", text)


class FlatBuffers(Buffers):
    def setUp(self):
        super().setUp()
        self.write("mlp.toml", MLP)

    def test_one_rank(self):
        self.expect_same(SMALL, "train mlp.toml")

    def test_other_updates(self):
        self.expect_same(SMALL, "train mlp.toml", "optimizer.name=sgd", "optimizer.momentum=0.9", "training.micro_batch_size=4",
                         "optimizer.average_decay=0.9")

    def test_sixteen_bits(self):
        self.expect_same(SMALL, "train mlp.toml", "training.mixed_precision=bf16")

    def test_ranks(self):
        self.expect_same(SMALL, "train mlp.toml --nproc 2")
        self.expect_same(SMALL, "train mlp.toml --nproc 2", "parallelism.pipeline=2")
        self.expect_same(SMALL, "train mlp.toml --nproc 2", "debug.deterministic=true")

    def test_partitions(self):
        for stage in (1, 2, 3):
            self.expect_same(SMALL, "train mlp.toml --nproc 2", f"parallelism.zero_stage={stage}", "optimizer.average_decay=0.9")

    def test_asynchronous_updates(self):
        self.run_with(SMALL, "train mlp.toml --nproc 2", "parallelism.update=asynchronous", "validation.every_steps=0", "job.dump_folder=run")
        self.assertTrue(self.weights("run"))

    def test_the_norm_of_gradients_in_several_buffers(self):
        for ranks in ("", " --nproc 2"):
            for stage in (0, 1, 2, 3) if ranks else (0,):
                losses = []
                for run, limit in (("whole", 0), ("pieces", SMALL)):
                    self.run_with(limit, "train mlp.toml" + ranks, f"job.dump_folder={run}", "job.overwrite=true",
                                  "training.max_norm=0.01", f"parallelism.zero_stage={stage}")
                    losses.append([loss for _, loss, _ in self.losses(run) if loss is not None])
                for whole, pieces in zip(*losses):
                    self.assertAlmostEqual(whole, pieces, places=5)

    def test_a_run_goes_on_with_other_buffers(self):
        self.run_with(0, "train mlp.toml", "job.dump_folder=whole")
        self.run_with(0, "train mlp.toml --max-steps 3", "job.dump_folder=run")
        self.run_with(SMALL, "train mlp.toml --resume auto", "job.dump_folder=run")
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_a_parameter_that_alone_is_larger_is_named(self):
        text = self.run_with(32 << 10, "train mlp.toml", code=3)
        self.assertIn("parameter 'fc0.weight', float32 [128, 128], has 65536 bytes, and one buffer of the device has at most 32768", text)
        self.assertIn("parallelism.tensor", text)

    def test_verify_compares_them(self):
        self.run_with(SMALL, "verify mlp.toml --against reference --steps 2")


if __name__ == "__main__":
    support.main()
