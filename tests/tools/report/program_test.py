"""Runs runtime-report on good, damaged and forged files, and on a run of runtime train.

Environment: RUNTIME_REPORT, the program; RUNTIME, the program runtime, without which its run is left out.
"""

import html.parser
import json
import os
import random
import subprocess
import tempfile
import unittest

import support

TINY = """
[model]
input = [6]
layers = [ { type = "linear", features = 5, activation = "relu" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 60
classes = 3
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 4
[metrics]
log_every_steps = 2
[device]
backend = "reference"
[job]
dump_folder = "run"
"""


class Structure(html.parser.HTMLParser):
    """Counts elements and checks that each that is opened is closed."""

    VOID = {"meta", "input", "wbr", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.text, self.ids = [], {}, [], []
        self.feed(text.replace("<wbr>", ""))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


class Program(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def fails(self, code, text, *arguments):
        done = support.report(arguments, self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("error: ", done.stderr)
        self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.path("report.html")), "nothing is written after an error")

    def test_the_page_is_sound_and_complete_without_script(self):
        support.write_run(self.path("a"))
        support.write(self.path("a"), "profile.json", json.dumps(support.profile(2)))
        support.write_run(self.path("b"), rate=0.02)
        support.write_sweep(self.path("s"))
        page = Structure(support.page_of(["a", "b", "s"], self.folder))
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)), "an id stands for one element")
        self.assertGreaterEqual(page.count["svg"], 10)
        self.assertGreaterEqual(page.count["table"], 15)
        self.assertEqual(page.count["table"], page.count["caption"])
        text = " ".join(page.text)
        for value in (support.loss(400, 0.01), support.loss(400, 0.01) + 0.05, support.loss(400, 0.02)):
            self.assertIn(f"{value:.4g}", text)
        self.assertIn("activations of conv1", text)

    def test_times_follow_from_speed_and_batch(self):
        support.write_run(self.path("a"))
        text = " ".join(Structure(support.page_of(["a"], self.folder)).text)
        self.assertRegex(text, r"time of an epoch 1 s mean")  # 100 steps of 50 samples at 5000 samples/s
        self.assertRegex(text, r"training time 4 s")

    def test_wrong_command_lines_end_with_2(self):
        support.write_run(self.path("a"))
        self.fails(2, "PATH is required")
        self.fails(2, "there is no such folder", "nowhere")
        self.fails(2, "has no files of a run", ".")
        self.fails(2, "--nonsense", "a", "--nonsense")
        support.write(self.path("a"), "config.toml", "[optimizer")
        self.fails(2, "config.toml:1", "a")

    def test_damaged_files_end_with_5(self):
        support.write_run(self.path("a"))
        for name, content, message in [
                ("profile.json", "{", "profile.json: expected one JSON object"),
                ("profile.json", "[" * 1000000, "nested deeper"),
                ("profile.json", '{"format":1,"ranks":[{"rank":0,"step_ns":"1"}]}', "step_ns: expected a number"),
                ("scaling.json", "{}", "expected the output of runtime bench")]:
            support.write(self.path("a"), name, content)
            self.fails(5, message, "a")
            os.remove(self.path("a", name))
        support.write(self.path("a"), "metrics.jsonl", "\0\0\0")
        self.fails(5, "expected lines of JSON objects", "a")
        self.fails(5, "metrics.jsonl", self.path("a", "metrics.jsonl"))

    def test_a_page_that_cannot_be_written_ends_with_5(self):
        support.write_run(self.path("a"))
        self.fails(5, "nowhere", "a", "--output", "nowhere/report.html")

    def test_a_killed_run_is_reported(self):
        support.write_run(self.path("a"))
        with open(self.path("a", "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step":410,"loss":0.3')
        done = support.report(["a"], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the last line is cut", done.stderr)
        with open(self.path("report.html"), encoding="utf-8") as file:
            self.assertIn("the last line is cut", file.read())

    def test_a_million_lines_make_a_small_page(self):
        os.makedirs(self.path("a"))
        with open(self.path("a", "metrics.jsonl"), "w", encoding="utf-8") as file:
            for step in range(1, 1000001):
                file.write(f'{{"step":{step},"epoch":0,"loss":{9.75 if step == 654321 else 1 + step % 7 / 8},"lr":0.1}}\n')
        page = support.page_of(["a"], self.folder)
        self.assertLess(len(page), 1000000)
        self.assertIn("largest 9.75", page)
        self.assertIn("1,000,000", page)

    def test_a_forged_run_does_not_become_markup(self):
        name = "<img src=x onerror=alert(1)>"
        support.write_run(self.path(name))
        support.write(self.path(name), "config.toml", "[job]\ndescription = \"</title><script>alert(2)</script>\"\n")
        page = support.page_of([name], self.folder)
        self.assertNotIn("<img", page)
        self.assertNotIn("<script>alert", page)
        self.assertEqual(Structure(page).count["script"], page.count("<script"))

    def test_files_with_changed_bytes_never_crash_it(self):
        support.write_run(self.path("a"), steps=60)
        support.write(self.path("a"), "profile.json", json.dumps(support.profile(1)))
        support.write_sweep(self.path("s"), trials=5)
        choose = random.Random(7)
        names = [("a", "metrics.jsonl"), ("a", "profile.json"), ("a", "config.toml"), ("s", "sweep.jsonl")]
        for _ in range(120):
            folder, name = choose.choice(names)
            with open(self.path(folder, name), "rb") as file:
                good = file.read()
            bad = bytearray(good)
            for _ in range(choose.randint(1, 8)):
                at = choose.randrange(len(bad))
                bad[at:at + choose.randint(0, 3)] = choose.choice([b"", b"\xff", b"\0", b"[", b"{", b'"', b"-1e999", b"null", b"1e300"])
            with open(self.path(folder, name), "wb") as file:
                file.write(bad)
            done = support.report([folder], self.folder)
            self.assertIn(done.returncode, (0, 2, 5), (bytes(bad), done.stderr))
            with open(self.path(folder, name), "wb") as file:
                file.write(good)

    @unittest.skipUnless(os.environ.get("RUNTIME"), "needs the program runtime")
    def test_a_run_of_runtime_train(self):
        support.write(self.folder, "tiny.toml", TINY)
        done = subprocess.run([os.environ["RUNTIME"], "train", "tiny.toml"], cwd=self.folder, capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("run", "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        text = " ".join(Structure(support.page_of(["run"], self.folder)).text)
        self.assertIn(f"{lines[-1]['loss']:.4g}", text)
        self.assertIn(f"{min(line['validation_loss'] for line in lines if 'validation_loss' in line):.4g}", text)
        self.assertRegex(text, r"steps 24 4 epochs")
        self.assertIn("reference:0", text)
        self.assertIn("optimizer.lr", text)


if __name__ == "__main__":
    unittest.main()
