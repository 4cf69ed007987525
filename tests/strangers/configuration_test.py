"""Keys and values that a configuration or --set may give: nothing is accepted that nothing reads."""

import os

import support

JOB = """
[model]
input = [6]
layers = [ { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 60
classes = 3
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 1
[device]
backend = "cpu"
"""


class Keys(support.Situation):
    def setUp(self):
        super().setUp()
        self.write("job.toml", JOB)

    def check(self, *overrides, code=0):
        return self.runtime("config", "check", "job.toml", *self.sets(overrides), code=code)

    def train(self, *overrides, code=0):
        return self.runtime("train", "job.toml", "--max-steps", "1", *self.sets(overrides), code=code)

    @staticmethod
    def sets(overrides):
        return [part for override in overrides for part in ("--set", override)]


class KeysOfPlugins(Keys):
    def test_a_table_of_a_plugin_that_is_not_installed_is_a_note(self):
        for section in ("device", "comm"):
            for command in (self.check, self.train):
                self.assertIn(f"note: [{section}.nonsense] is not used: no plugin of that name is installed",
                              command(f"{section}.nonsense.foo=1", f"job.dump_folder={section}{command.__name__}"))

    def test_a_misspelt_plugin_gets_the_name_of_the_nearest(self):
        self.assertIn('did you mean "cpu"?', self.check("device.cpuu.winograd=false"))

    def test_an_unknown_key_of_an_installed_plugin_is_an_error_also_if_the_run_does_not_use_it(self):
        for command in (self.check, self.train):
            said = command("device.reference.threds=1", code=2)
            self.assertIn("device.reference.threds = 1: the plugin has no such key", said)
        self.assertIn('did you mean "winograd"?', self.check("device.cpu.winogard=false", code=2))

    def test_a_key_in_the_wrong_section_is_told_the_right_one(self):
        if "\ngloo" not in "\n" + self.runtime("plugins", "list"):
            self.skipTest("the plugin gloo was not built")
        self.assertIn("it has comm.gloo.shared_memory", self.check("device.gloo.shared_memory=false", code=2))
        self.check("comm.gloo.shared_memory=false")
        self.check("comm.cpu.winograd=false", code=2)

    def test_what_info_prints_is_accepted(self):
        for plugin in (line.split()[0] for line in self.runtime("plugins", "list").splitlines()
                       if not line.startswith("rejected")):
            for line in self.runtime("plugins", "info", plugin).splitlines():
                if line.startswith("key"):
                    self.assertIn("ok", self.check(line.split()[1] + "=1"))


class Texts(Keys):
    def test_a_key_of_text_takes_the_text(self):
        for text in ("2026-11-27", "2026", "1e5", "true", "-1", "07:32:00", "[a]", "1_000", "a # b", "nan"):
            shown = self.runtime("config", "show", "job.toml", "--set", f"job.description={text}")
            self.assertIn(f'description = "{text}"', shown)

    def test_a_folder_may_look_like_a_date(self):
        self.train("job.dump_folder=2026-11-27")
        self.assertTrue(os.path.exists(self.path("2026-11-27", "metrics.jsonl")))

    def test_a_column_may_be_a_number(self):
        self.write("table.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n")
        shown = self.runtime("config", "show", "job.toml", "--set", "dataset.format=csv", "--set",
                             "dataset.path=table.csv", "--set", "dataset.target=-1", "--set", "model.input=[2]")
        self.assertIn('target = "-1"', shown)

    def test_quotes_are_those_of_toml(self):
        shown = self.runtime("config", "show", "job.toml", "--set", 'job.description="a\\tb"')
        self.assertIn('description = "a\\tb"', shown)

    def test_a_file_is_told_the_remedy(self):
        self.write("job.toml", JOB + "[job]\ndump_folder = 2026-11-27\n")
        self.assertIn("put it into quotes", self.check(code=2))

    def test_other_keys_keep_their_types(self):
        self.assertIn("training.epochs", self.check("training.epochs=true", code=2))
        self.assertIn("dataset.shuffle", self.check("dataset.shuffle=1", code=2))


if __name__ == "__main__":
    support.main()
