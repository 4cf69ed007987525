"""The first hour of somebody new: a table, a folder of pictures and a text of their own, each trained, stopped, resumed, evaluated,
predicted and reported. The files are those of configs/README.md, and the commands those that it and the program's messages name."""

import base64
import csv
import io
import json
import os
import random
import re
import shlex
import struct

import support
from pictures_test import exif, kinds_of_png

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/README.md")
# 8x8 pixels each: in colour, grey, and in four inks with Adobe's marker.
JPEGS = [base64.b64decode(text) for text in (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//"
    "2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAIAAgDAREAAhEBAxEB/8QA"
    "FAABAAAAAAAAAAAAAAAAAAAABP/EABgQAAIDAAAAAAAAAAAAAAAAAAAEBSIx/8QAFQEBAQAAAAAAAAAAAAAAAAAAAAX/xAAYEQADAQEAAAAAAAAAAAAAAAAA"
    "BAUxIf/aAAwDAQACEQMRAD8AAjCZQtVG9El7On//2Q==",
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//"
    "wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAABP/EABgQAAIDAAAAAAAAAAAAAAAAAAAEBSIx/9oACAEBAAA/AAIwmUP/2Q==",
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AA"
    "FAgACAAIBEMRAE0RAFkRAEsRAP/EABcAAAMBAAAAAAAAAAAAAAAAAAQFBgf/xAAbEAACAQUAAAAAAAAAAAAAAAAABhZCQ2OBof/aAA4EQwBNAFkASwAAPwAF"
    "Ct6E0Rx8KNprNOP/2Q==")]


def lying(jpeg, orientation):
    """The JPEG file with an EXIF orientation."""
    segment = b"Exif\0\0" + exif(orientation)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]


class Walk(support.Situation):
    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def config(self, name, **replaced):
        """Writes the file of that name in configs/README.md; `replaced` are keys with other values. Nothing is measured: on a
        busy machine two commands that measure may choose other kernels, with other last bits, and say so."""
        with open(README, encoding="utf-8") as file:
            text = re.search(rf"^```toml\n(# {name}.*?)^```", file.read(), re.M | re.S).group(1)
        for key, value in replaced.items():
            text, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.M)
            self.assertEqual(count, 1, key)
        self.write(name, text + '\n[device]\ntune = "off"\n')

    def next(self, said, words, *more):
        """Runs the command that the program has printed behind `words`, up to a --set with a placeholder, with more arguments."""
        command = re.search(re.escape(words) + r" runtime (.*)", said).group(1)
        return self.runtime(*shlex.split(command.split(" --set ")[0]), *more)

    def train(self, config, steps):
        """Trains in two parts, and returns the folder of the run and the last output; the weights are those of a run in one part."""
        self.assertEqual(self.runtime("config", "check", config), config + ": ok\n")
        said = self.runtime("train", config, "--resume", "auto", "--max-steps", str(steps))
        self.assertIn("has found no checkpoint in outputs/" + config[:-5], said)
        run = re.search(r"run folder: (\S+)", said).group(1)
        said = self.runtime("train", config, "--resume", "auto")
        self.assertIn(f"resumed from {run}/checkpoints", said)
        self.runtime("train", config, "--set", "job.dump_folder=whole")
        self.assertEqual(self.read(run, "weights.safetensors"), self.read("whole", "weights.safetensors"))
        return run, said

    def longer(self, config):
        """What the program says at the end goes on with the run, also from its folder when that has been moved."""
        said = self.runtime("train", config, "--resume", "auto")
        run = re.search(r"run folder: (\S+)", said).group(1)
        self.assertIn(f"resumed from {run}/", self.next(said, "to train longer:", "--set", "training.epochs=40", "--max-steps", "500"))
        os.rename(self.path(run), self.path("moved"))
        self.assertIn("resumed from ./", self.runtime("train", "config.toml", "--resume", "auto", folder="moved"))

    def report(self, run):
        self.runtime("report", run)
        page = self.read("report.html").decode()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertIn(os.path.basename(run), page)

    def predict(self, config, run, *arguments):
        return self.json_lines("predict", config, "--weights", run + "/weights.safetensors", *arguments)

    def assert_evaluated(self, said, validation):
        """The command that training has ended with agrees with the predictions of the validation."""
        evaluated = json.loads(self.next(said, "next:").splitlines()[-1])
        right = sum(line["label"] == line["predicted"] for line in validation)
        self.assertEqual((evaluated["samples"], round(evaluated["accuracy"] * len(validation))), (len(validation), right))
        self.assertGreater(right, 0.7 * len(validation))

    def assert_same(self, new, validation):
        """The same samples without labels have the same predictions, bit for bit."""
        keys = ("predicted", "predicted_name", "probability")
        self.assertEqual([[line[key] for key in keys] for line in new], [[line[key] for key in keys] for line in validation])
        self.assertFalse([line for line in new if "label" in line])

    def test_a_table(self):
        names, draw, out = ("oak, old", 'a "red" maple', "fir"), random.Random(5), io.StringIO()
        rows = [[2021, 2022, 2023, "kind"]] + [
            [1000 + 50 * (i % 3) + draw.gauss(0, 4), draw.gauss(0.001 * (i % 3), 0.0001), draw.uniform(-5, 5), names[i % 3]]
            for i in range(120)]
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
        self.write("table.csv", out.getvalue())
        self.config("table.toml")
        run, said = self.train("table.toml", 25)
        validation = self.predict("table.toml", run)
        self.assertEqual([line["label_name"] for line in validation], [row[3] for row in rows[97:]])
        self.assert_evaluated(said, validation)
        self.write("new.csv", "\n".join(",".join(f'"{field}"' for field in row[:3]) for row in rows[:1] + rows[97:]))
        self.assert_same(self.predict("table.toml", run, "--data", "new.csv"), validation)
        self.report(run)
        self.longer("table.toml")

    def test_a_folder_of_pictures(self):
        # Cats are PNG files of every kind, and dogs JPEG files, of which a third is grey and a third has four inks.
        for i, (_, file, _) in enumerate(kinds_of_png()):
            self.write(f"photos/cats/{i:02}.png", file)
        for i, jpeg in enumerate(JPEGS * 15):
            self.write(f"photos/dogs/{i:02}.jpg", lying(jpeg, 1 + i % 8))
        self.config("pictures.toml")
        run, said = self.train("pictures.toml", 9)
        validation = self.predict("pictures.toml", run)
        self.assert_evaluated(said, validation)
        for line in validation:
            self.write("new/" + os.path.basename(line["file"]), self.read(line["file"]))
        new = {os.path.basename(line["file"]): line for line in self.predict("pictures.toml", run, "--data", "new")}
        self.assert_same([new[os.path.basename(line["file"])] for line in validation], validation)
        self.report(run)
        self.longer("pictures.toml")

    def test_a_text(self):
        text = "Größe zählt - ça va?\r\nThe fox jumps over the dog.\r\n" * 40
        self.write("text.txt", b"\xef\xbb\xbf" + text.encode())
        self.config("text.toml", outputs=20, epochs=2)
        said = self.runtime("train", "text.toml", code=2)
        self.config("text.toml", outputs=re.search(r"set model.outputs = (\d+)", said).group(1), epochs=2)
        run, said = self.train("text.toml", 3)
        self.assertIn(f"{len(text) * 9 // 10} tokens of {len(set(text))} kinds", said)
        arguments = ("--prompt", "The", "--tokens", "20", "--seed", "7")
        written = self.next(said, "next:", *arguments)
        self.assertEqual(written, self.runtime("predict", "text.toml", "--weights", run + "/weights.safetensors", *arguments))
        self.assertLessEqual(set(written), set(text))
        self.report(run)


if __name__ == "__main__":
    support.main()
