"""Sweeps whose runs end early, are not measured, or diverge."""

import json

import support

JOB = """
[model]
input = [2]
layers = [ { type = "linear", features = 2 } ]
[dataset]
format = "csv"
path = "train.csv"
target = "y"
validation_split = 0.25
[training]
global_batch_size = 2
[device]
backend = "cpu"
"""


class Sweeps(support.Situation):
    def setUp(self):
        super().setUp()
        self.write("train.csv", "a,b,y\n" + "".join(f"{i / 8},{1 - i / 8},{i % 2}\n" for i in range(16)))
        self.write("job.toml", JOB)

    def sweep(self, text, *options, code=0):
        self.write("sweep.toml", 'config = "job.toml"\n' + text)
        return self.runtime("sweep", "sweep.toml", *(() if "--folder" in options else ("--folder", "out")), *options, code=code)

    def records(self):
        with open(self.path("out", "sweep.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def statuses(self):
        return [record["status"] for record in self.records()]


class MonitorsInsideAnEpoch(Sweeps):
    TEXT = 'monitor = "validation_accuracy"\n[set]\ntraining.steps = 4\n[parameters]\noptimizer.lr = [0.1, 0.2]\n'

    def test_runs_that_end_inside_an_epoch_have_the_monitor(self):
        self.sweep(self.TEXT, "--dry-run")
        self.sweep(self.TEXT)
        self.assertEqual(self.statuses(), ["done", "done"])
        for record in self.records():
            self.assertIsInstance(record["value"], float)

    def test_halving_by_epochs_and_steps(self):
        for unit, lengths in (("steps", [2, 5]), ("epochs", [1, 2])):
            self.sweep(f'folder = "{unit}"\nmonitor = "validation_loss"\n[halving]\n{unit} = {lengths}\nfactor = 2\n'
                       "[parameters]\noptimizer.lr = [0.1, 0.2]\n", "--folder", unit)
            with open(self.path(unit, "sweep.jsonl"), encoding="utf-8") as file:
                self.assertEqual({json.loads(line)["status"] for line in file}, {"done"})


class WhereEveryTrialFails(Sweeps):
    OFF = 'monitor = "validation_loss"\n[parameters]\noptimizer.lr = [0.1, 0.2]\n'

    def test_the_folder_goes_on_after_the_configuration_is_mended(self):
        self.write("job.toml", JOB.replace("validation_split = 0.25", ""))
        said = self.sweep(self.OFF, code=2)
        self.assertEqual(self.statuses(), ["failed", "failed"])
        self.assertIn("--resume", said)
        self.assertIn("--resume", self.sweep(self.OFF, code=2))
        self.write("job.toml", JOB)
        self.sweep(self.OFF, "--resume")
        self.assertEqual(self.statuses(), ["failed", "failed", "done", "done"])

    def test_the_folder_goes_on_with_a_mended_file(self):
        off = self.OFF.replace("[parameters]", "[set]\ndataset.validation_split = 0.0\n[parameters]")
        self.sweep(off, code=2)
        said = self.sweep(self.OFF, "--resume")
        self.assertIn("begins anew", said)
        self.assertEqual(self.statuses(), ["done", "done"])

    def test_a_monitor_that_is_never_measured_is_refused_at_first(self):
        said = self.sweep(self.OFF + "[set]\nvalidation.every_epochs = 0\n", "--dry-run", code=2)
        self.assertIn("is never measured", said)
        said = self.sweep(self.OFF.replace("validation_loss", "validation_f1"), "--dry-run", code=2)
        self.assertIn('validation.metrics has no "f1"', said)

    def test_results_are_not_begun_anew(self):
        self.sweep(self.OFF)
        self.sweep(self.OFF.replace("0.2", "0.3"), "--resume", code=2)
        self.assertEqual(self.statuses(), ["done", "done"])


class Diverged(Sweeps):
    TEXT = "[parameters]\noptimizer.lr = [0.1, 1e30]\n"

    def setUp(self):
        super().setUp()
        self.write("job.toml", JOB.replace("features = 2", "features = 1").replace("[training]", 'task = "regression"\n[training]'))

    def page(self, *paths):
        self.runtime("report", *paths, "--output", "page.html")
        with open(self.path("page.html"), encoding="utf-8") as file:
            return file.read()

    def test_a_sweep_with_a_diverged_trial_has_a_page(self):
        self.sweep(self.TEXT)
        self.assertEqual(self.statuses(), ["done", "failed"])
        page = self.page("out")
        self.assertIn("1 done, 1 failed", page)
        self.assertIn("Best trials", page)

    def test_a_diverged_run_has_a_page_alone_and_beside_others(self):
        self.sweep(self.TEXT)
        self.page("out/runs/001")
        self.page("out/runs/000", "out/runs/001")

    def test_it_is_run_again_and_the_others_are_not(self):
        self.sweep(self.TEXT)
        self.sweep(self.TEXT, "--resume")
        self.assertEqual([record["trial"] for record in self.records()], [0, 1, 1])


if __name__ == "__main__":
    support.main()
