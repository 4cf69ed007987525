"""What a run says of its training: means, validations, the best one, where nothing counts or a run ends or goes on."""

import math
import os
import re
import struct

import support

TOKENS = """
[model]
input = [4]
layers = [ { type = "embedding", vocabulary = 5, features = 6 }, { type = "linear", features = 5 } ]
[dataset]
format = "tokens"
path = "train.bin"
validation_path = "validation.bin"
classes = 5
last_batch = "keep"
shuffle = false
[training]
global_batch_size = 2
epochs = 2
ignore_label = 0
[optimizer]
lr = 1e-30
[validation]
metrics = ["perplexity", "f1"]
[metrics]
log_every_steps = 1
csv = true
[checkpoint]
keep_best = 1
[device]
backend = "cpu"
"""

TABLE = """
[model]
input = [1]
layers = [ { type = "linear", features = 1 } ]
[dataset]
format = "csv"
path = "train.csv"
validation_path = "validation.csv"
target = "y"
task = "regression"
last_batch = "keep"
[training]
global_batch_size = 4
epochs = 1
[optimizer]
lr = 1e-30
[device]
backend = "cpu"
"""


def set_keys(**keys):
    """The options for settings; `a__b` stands for a.b."""
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


class Training(support.Situation):
    def tokens(self, training, validation):
        self.write("train.bin", struct.pack(f"<{len(training)}H", *training))
        self.write("validation.bin", struct.pack(f"<{len(validation)}H", *validation))
        self.write("run.toml", TOKENS)

    def table(self, training, validation):
        for name, rows in (("train.csv", training), ("validation.csv", validation)):
            self.write(name, "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
        self.write("run.toml", TABLE)

    def train(self, folder, **keys):
        return self.runtime("train", "run.toml", *set_keys(job__dump_folder=folder, **keys))


class NothingCounted(Training):
    PART = [1, 2, 3, 4, 1, 3, 2, 4, 4]

    def test_a_validation_of_ignored_labels_is_no_number_and_never_the_best(self):
        self.tokens(self.PART * 2, [0] * 13)
        for progress in ("epochs", "lines"):
            said = self.train("run", metrics__progress=progress, job__overwrite="true")
            self.assertIn("counts nothing", said)
            self.assertEqual(said.count("counts nothing"), 1, said)
            self.assertNotIn("best validation", said)
            lines = [line for line in self.metrics("run") if "validation_loss" in line]
            self.assertEqual(len(lines), 2)
            for line in lines:
                for key in ("validation_loss", "validation_accuracy", "validation_perplexity", "validation_f1"):
                    self.assertIsNone(line[key], key)
                self.assertGreater(line["loss"], 0)
        with open(self.path("run", "metrics.csv"), encoding="utf-8") as file:
            header, *rows = [line.strip().split(",") for line in file]
        for row in rows:
            value = row[header.index("validation_loss")]
            self.assertIn(value, ("", "nan"))
        said = self.runtime("evaluate", "run.toml", "--weights", "run/weights.safetensors", code=5)
        self.assertIn('"loss":null,"accuracy":null', said)
        self.assertIn("nothing counts", said)

    def test_one_of_which_a_label_counts_has_its_loss(self):
        self.tokens(self.PART * 2, [0] * 8 + [1] + [0] * 4)
        self.train("run")
        lines = [line for line in self.metrics("run") if "validation_loss" in line]
        for line in lines:
            self.assertGreater(line["validation_loss"], 0)
        self.assertNotIn("counts nothing", self.train("again"))

    def test_a_batch_of_ignored_labels_is_in_no_mean(self):
        # Samples are windows of 4 tokens whose labels are the next ones; batches have two samples.
        counted = [1, 2, 3, 4] * 2
        self.tokens(counted + [0] * 8 + [0], counted + [1])
        said = self.train("run", training__epochs=1, validation__every_epochs=0)
        self.assertIn("step 2 counts nothing", said.replace("step 1", "step 2"))
        of_step = {line["step"]: line["loss"] for line in self.metrics("run")}
        losses = list(of_step.values())
        self.assertEqual(sum(loss is None for loss in losses), 1, losses)
        expected = next(loss for loss in losses if loss is not None)
        self.train("mean", training__epochs=1, validation__every_epochs=0, metrics__log_every_steps=2)
        self.assertAlmostEqual(self.metrics("mean")[-1]["loss"], expected, 5)
        said = self.train("lines", training__epochs=1, validation__every_epochs=0, metrics__progress="epochs")
        self.assertIn(f"loss {expected:.4f}", said)

    def test_the_search_for_a_rate_does_not_take_it_for_a_divergence(self):
        self.tokens([1, 2, 3, 4] * 8 + [0] * 9, self.PART)
        said = self.runtime("tune", "lr", "run.toml", "--steps", "40")
        self.assertIn("the loss has not diverged", said)

    def test_ranks_leave_it_out_as_well(self):
        self.tokens(self.PART * 2, [0] * 13)
        said = self.runtime("train", "run.toml", "--nproc", "2", *set_keys(job__dump_folder="run"))
        self.assertIn("counts nothing", said)
        self.assertIsNone(self.metrics("run")[-1]["validation_loss"])


class Means(Training):
    def test_the_training_loss_is_that_of_all_samples(self):
        rows = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 20)]
        self.table(rows, rows)
        for ranks in ("1", "2"):
            said = self.runtime("train", "run.toml", "--nproc", ranks,
                                *set_keys(job__dump_folder=f"run{ranks}", metrics__progress="epochs"))
            line = self.metrics(f"run{ranks}")[-1]
            self.assertAlmostEqual(line["loss"], line["validation_loss"], 3)
            shown = re.search(r"step 2  loss ([\d.]+)  validation loss ([\d.]+)", said)
            self.assertEqual(shown.group(1), shown.group(2), said)

    def test_that_of_an_unfinished_epoch_and_of_a_run_that_goes_on(self):
        rows = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 20)]
        self.table(rows, rows)
        keys = {"metrics__log_every_steps": 4, "training__epochs": 2}
        self.train("whole", **keys)
        self.runtime("train", "run.toml", "--max-steps", "3", *set_keys(job__dump_folder="parts", **keys))
        self.runtime("train", "run.toml", "--resume", "auto", *set_keys(job__dump_folder="parts", **keys))
        self.assertEqual(self.metrics("parts")[-1]["loss"], self.metrics("whole")[-1]["loss"])


class Best(Training):
    """A run whose first validation is the best: the rate is so large that the loss grows."""

    KEYS = {"optimizer__lr": 0.5, "checkpoint__keep_best": 1, "early_stopping__restore_best": "true", "training__epochs": 2,
            "metrics__progress": "epochs"}

    def setUp(self):
        super().setUp()
        rows = [(1 + i / 8, 3 + i) for i in range(4)]
        self.table(rows, rows)

    def best_of(self, *runs):
        lines = [line for run in runs for line in self.metrics(run) if line.get("validation_loss") is not None]
        return min((line["validation_loss"], line["step"]) for line in lines)

    def loss_of(self, weights):
        return self.json_lines("evaluate", "run.toml", "--weights", weights)[0]["loss"]

    def test_the_summary_knows_it_after_a_resume(self):
        self.train("run", **self.KEYS)
        said = self.runtime("train", "run.toml", "--resume", "auto",
                            *set_keys(job__dump_folder="run", **{**self.KEYS, "training__epochs": 4}))
        value, step = self.best_of("run")
        self.assertEqual(step, 1)
        self.assertRegex(said, f"best validation loss: {value:.4f}, after step {step}\n")
        self.assertIn("those of the best validation", said)
        self.assertAlmostEqual(self.loss_of("run/weights.safetensors"), value, 4)

    def test_in_another_folder_its_weights_are_those_of_the_old_one(self):
        self.train("old", **self.KEYS)
        said = self.runtime("train", "run.toml", "--resume", "old",
                            *set_keys(job__dump_folder="new", **{**self.KEYS, "training__epochs": 4}))
        value, step = self.best_of("old", "new")
        self.assertEqual(step, 1)
        self.assertIn("those of the best validation", said)
        self.assertAlmostEqual(self.loss_of("new/weights.safetensors"), value, 4)

    def test_it_is_not_claimed_where_its_checkpoint_has_gone(self):
        self.train("old", **self.KEYS)
        for name in os.listdir(self.path("old", "checkpoints")):
            if name.endswith("1"):
                os.rename(self.path("old", "checkpoints", name), self.path("elsewhere"))
        said = self.runtime("train", "run.toml", "--resume", "old",
                            *set_keys(job__dump_folder="new", **{**self.KEYS, "training__epochs": 4}))
        self.assertNotIn("those of the best validation", said)
        self.assertIn("those of the best checkpoint that was found, after step 2", said)

    def test_another_monitor_is_not_compared(self):
        self.train("run", **self.KEYS)
        said = self.runtime("train", "run.toml", "--resume", "auto", "--set", 'validation.metrics=["mae"]',
                            *set_keys(job__dump_folder="run", validation__monitor="mae",
                                      **{**self.KEYS, "training__epochs": 4}))
        self.assertRegex(said, r"best validation mae: [\d.]+, loss [\d.]+, after step 3 \(of those after step 2\)")
        self.assertNotIn("those of the best validation", said)


class NaNValidations(Training):
    def test_they_count_for_patience(self):
        self.table([(1, 1), (2, 2), (3, 1), (4, 2)] * 2, [(1, 1)])
        said = self.train("run", optimizer__lr=1e30, debug__nan="warn", training__epochs=12, early_stopping__patience=2,
                          metrics__progress="epochs", metrics__csv="true")
        self.assertIn("stopped early", said)
        self.assertLess(len([line for line in self.metrics("run") if "validation_loss" in line]), 12)
        with open(self.path("run", "metrics.csv"), encoding="utf-8") as file:
            self.assertNotIn("-nan", file.read())
        self.assertNotIn("-nan", said)

    def test_no_sign_is_before_them_in_predictions(self):
        self.table([(1, 1), (2, 2), (3, 1), (4, 2)] * 2, [(1, 1)])
        self.train("run", optimizer__lr=1e30, debug__nan="warn", training__epochs=6)
        said = self.runtime("predict", "run.toml", "--weights", "run/weights.safetensors", "--format", "csv")
        self.assertNotIn("-nan", said)

    def test_they_count_for_the_schedule(self):
        self.table([(1, 1), (2, 2), (3, 1), (4, 2)] * 2, [(1, 1)])
        self.train("run", optimizer__lr=1e30, debug__nan="warn", training__epochs=6, lr_scheduler__name="plateau",
                   lr_scheduler__patience=0)
        self.assertLess(self.metrics("run")[-1]["lr"], 1e30)


class Ends(Training):
    def test_a_run_that_ends_inside_an_epoch_is_validated(self):
        rows = [(i / 16, i / 8) for i in range(16)]
        self.table(rows, rows)
        for keys, steps in (({"training__steps": 2}, 2), ({"training__steps": 6}, 6),
                            ({"training__steps": 5, "validation__every_steps": 3, "validation__every_epochs": 0}, 5)):
            said = self.train("run", optimizer__lr=0.1, metrics__progress="epochs", job__overwrite="true", **keys)
            lines = self.metrics("run")
            self.assertEqual([line["step"] for line in lines].count(steps), 1, lines)
            self.assertIn("validation_loss", lines[-1])
            self.assertIn(f"after step {steps}\n", said)
            self.assertRegex(said, rf"step {steps} .* validation loss")

    def test_not_where_validations_are_off(self):
        rows = [(i / 16, i / 8) for i in range(16)]
        self.table(rows, rows)
        self.train("run", training__steps=2, validation__every_epochs=0)
        self.assertFalse(any("validation_loss" in line for line in self.metrics("run")))

    def test_what_is_trained_after_it_is_what_would_have_been(self):
        rows = [(i / 16, i / 8) for i in range(16)]
        self.table(rows, rows)
        keys = {"optimizer__lr": 0.1, "training__epochs": 3, "metrics__log_every_steps": 2, "lr_scheduler__name": "plateau",
                "lr_scheduler__patience": 0, "lr_scheduler__threshold": 1}
        self.train("whole", **keys)
        self.runtime("train", "run.toml", "--max-steps", "6", *set_keys(job__dump_folder="parts", **keys))
        self.runtime("train", "run.toml", "--resume", "auto", *set_keys(job__dump_folder="parts", **keys))
        def numbers(run):
            return [(line["step"], line["loss"], line["lr"]) for line in self.metrics(run)]
        self.assertEqual([line for line in numbers("parts") if line in numbers("whole")], numbers("whole"))

    def test_the_bar_counts_the_steps_of_the_run(self):
        rows = [(i / 64, i / 64) for i in range(64)]
        self.table(rows, rows[:4])
        said = self.train("run", training__steps=3, metrics__progress="bar", optimizer__lr=0.1)
        self.assertIn("1/3  loss", said)
        self.assertNotIn("/16  loss", said)


class PlateauOfNegativeValues(Training):
    def test_the_rate_falls(self):
        # R2 of a constant prediction far from the targets is below 0 and stays there.
        self.table([(0, 10 + i) for i in range(8)], [(0, 10 + i) for i in range(8)])
        self.runtime("train", "run.toml", "--set", 'validation.metrics=["r2"]',
                     *set_keys(job__dump_folder="run", validation__monitor="r2", lr_scheduler__name="plateau",
                               lr_scheduler__patience=1, lr_scheduler__threshold=0.01, training__epochs=6))
        last = self.metrics("run")[-1]
        self.assertLess(last["validation_r2"], 0)
        self.assertLess(last["lr"], 1e-30)
        self.assertTrue(math.isfinite(last["lr"]))


class Unusual(Training):
    """What a step computes without an error, and no one would want."""

    def test_batch_normalisation_of_a_single_value_is_noted_once(self):
        rows = [(i / 16, i / 8) for i in range(9)]  # the third batch has one sample
        self.table(rows, rows)
        self.write("run.toml", TABLE.replace("layers = [ ", 'layers = [ { type = "linear", features = 4 }, { type = "batch_norm" }, '))
        said = self.train("run", training__epochs=2)
        self.assertEqual(said.count("normalises one value per channel in a training step"), 1, said)
        self.assertIn("note: layer 'bn1'", said)
        self.assertNotIn("normalises one value", self.train("run", job__overwrite="true", dataset__last_batch="drop"))
        said = self.train("run", job__overwrite="true", training__micro_batch_size=1)
        self.assertEqual(said.count("normalises one value per channel in a training step"), 1, said)

    def test_a_gradient_whose_norm_is_infinite_is_warned_of_once(self):
        rows = [(1e3, 1e17)] * 8
        self.table(rows, rows)
        said = self.train("run", training__max_norm=1.0, optimizer__lr=0.1)
        self.assertEqual(said.count("the norm of the gradient of step 1 is too large for float32"), 1, said)
        self.assertIn("training.max_norm has scaled the gradient to 0", said)
        said = self.train("run", job__overwrite="true", training__max_norm=1.0, optimizer__lr=0.1, training__dtype="float64",
                          device__backend="reference")
        self.assertNotIn("the norm of the gradient", said)


if __name__ == "__main__":
    support.main()
