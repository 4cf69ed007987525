"""Predictions of samples that were not there in training: they are prepared as the training samples were, and need no labels."""

import csv
import io
import json
import os
import random
import shutil
import struct
import zlib

import support
from pictures_test import kinds_of_png, turned_pngs
from tables_test import npy

TABLE = """
[model]
input = [3]
layers = [{{ type = "linear", features = 8, activation = "tanh" }}, {{ type = "linear", features = {outputs} }}]
[dataset]
format = "csv"
path = "train.csv"
target = "{target}"
task = "{task}"
standardize = true
validation_split = 0.25
[training]
global_batch_size = 8
epochs = 4
loss = "{loss}"
[optimizer]
lr = 0.05
[device]
backend = "cpu"
tune = "off"
"""
CLASSES = {"target": "kind", "task": "classification", "outputs": 3, "loss": "cross_entropy"}
NUMBERS = {"target": "y", "task": "regression", "outputs": 1, "loss": "mean_squared_error"}


def rows(seed, count):
    """Features far from zero, of three kinds whose numbers lie apart."""
    draw = random.Random(seed)
    for i in range(count):
        kind = i % 3
        yield [1000 + 50 * kind + draw.gauss(0, 10), 0.001 * kind + draw.gauss(0, 0.0002), draw.uniform(-5, 5)], kind


def table(lines, header=True, target="kind", labelled=True, names=("cat, wild", "dog", "zebra")):
    out = io.StringIO()
    writer = csv.writer(out)
    if header:
        writer.writerow(["height", "width", "age"] + ([target] if labelled else []))
    for features, kind in lines:
        label = [names[kind] if target == "kind" else 3 * kind + features[2]] if labelled else []
        writer.writerow([repr(x) for x in features] + label)
    return out.getvalue()


class Predicting(support.Situation):
    def train(self, values=None, lines=None, **options):
        values = values or CLASSES
        lines = lines or list(rows(1, 48))
        self.write("train.csv", table(lines, target=values["target"], **options))
        self.write("c.toml", TABLE.format(**values))
        self.runtime("train", "c.toml", "--set", "job.dump_folder=run", "--quiet")
        return lines

    def predict(self, *arguments, weights="run/weights.safetensors", **options):
        return self.json_lines("predict", "c.toml", "--weights", weights, *arguments, **options)

    def assert_same(self, some, others, keys=("predicted", "probability")):
        self.assertEqual(len(some), len(others))
        for a, b in zip(some, others):
            self.assertEqual([a[k] for k in keys], [b[k] for k in keys])

    def assert_close(self, some, others):
        """Batches of another size may be computed by other kernels, which round in another way."""
        self.assert_same(some, others, ("predicted",))
        for a, b in zip(some, others):
            self.assertAlmostEqual(a["probability"], b["probability"], places=5)


class Predictions(Predicting):
    def test_a_new_table_is_standardised_by_the_training_data(self):
        lines = self.train()
        validation = self.predict()
        self.write("new.csv", table(lines[36:]))
        self.assert_same(self.predict("--data", "new.csv"), validation, ("label", "predicted", "probability"))
        # one sample alone has no deviation of its own
        self.write("one.csv", table(lines[40:41]))
        self.assert_close(self.predict("--data", "one.csv"), validation[4:5])

    def test_samples_need_no_labels(self):
        lines = self.train()
        validation = self.predict()
        self.write("new.csv", table(lines[36:], labelled=False))
        found = self.predict("--data", "new.csv")
        self.assert_same(found, validation)
        self.assertNotIn("label", found[0])

    def test_columns_are_found_by_name(self):
        lines = self.train()
        text = "age,id,height,width\n" + "".join(f"{f[2]!r},x{i},{f[0]!r},{f[1]!r}\n" for i, (f, _) in enumerate(lines[36:]))
        self.write("new.csv", text)
        self.assert_same(self.predict("--data", "new.csv"), self.predict())

    def test_a_table_without_header_and_labels(self):
        values = {**CLASSES, "target": "-1"}
        lines = list(rows(1, 48))
        self.write("train.csv", table(lines, header=False))
        self.write("c.toml", TABLE.format(**values))
        self.runtime("train", "c.toml", "--set", "job.dump_folder=run", "--quiet")
        self.write("new.csv", table(lines[36:], header=False, labelled=False))
        self.assert_same(self.predict("--data", "new.csv"), self.predict())

    def test_numbers_are_predicted_without_targets(self):
        lines = self.train(NUMBERS)
        validation = self.predict()
        self.write("new.csv", table(lines[36:], target="y", labelled=False))
        found = self.predict("--data", "new.csv")
        self.assert_same(found, validation, ("predicted",))
        self.assertNotIn("targets", found[0])

    def test_classes_have_names(self):
        self.train()
        found = self.predict()
        names = ["cat, wild", "dog", "zebra"]
        for line in found:
            self.assertEqual(line["predicted_name"], names[line["predicted"]])
            self.assertEqual(line["label_name"], names[line["label"]])
        printed = self.runtime("predict", "c.toml", "--weights", "run/weights.safetensors", "--format", "csv")
        parsed = list(csv.DictReader(io.StringIO(printed[printed.index("index,"):])))
        self.assertEqual([row["predicted_name"] for row in parsed], [line["predicted_name"] for line in found])
        matrix = self.runtime("evaluate", "c.toml", "--weights", "run/weights.safetensors", "--metrics", "confusion", "--format", "table")
        self.assertIn("zebra", matrix)

    def test_a_new_file_that_is_not_there(self):
        self.train()
        self.assertIn("--data nowhere.csv: it does not exist",
                      self.runtime("predict", "c.toml", "--weights", "run/weights.safetensors", "--data", "nowhere.csv", code=5))

    def test_fewer_classes_in_the_new_table(self):
        lines = self.train()
        dogs = [line for line in lines if line[1] == 1]
        self.write("new.csv", table(dogs))
        self.assertEqual({line["label_name"] for line in self.predict("--data", "new.csv")}, {"dog"})

    def test_evaluate_takes_the_statistics_of_the_weights(self):
        lines = self.train()
        before = self.json_lines("evaluate", "c.toml", "--weights", "run/weights.safetensors")[-1]
        self.write("new.csv", table(lines[36:]))
        after = self.json_lines("evaluate", "c.toml", "--weights", "run/weights.safetensors", "--part", "train", "--set",
                                "dataset.path=new.csv", "--set", "dataset.validation_split=0")[-1]
        self.assertEqual(before["accuracy"], after["accuracy"])
        self.assertAlmostEqual(before["loss"], after["loss"], places=6)

    def test_resumed_and_exported_weights_predict_the_same(self):
        self.write("train.csv", table(rows(1, 48)))
        self.write("c.toml", TABLE.format(**CLASSES))
        self.runtime("train", "c.toml", "--set", "job.dump_folder=run", "--quiet", "--max-steps", "7")
        self.runtime("train", "c.toml", "--set", "job.dump_folder=run", "--quiet", "--resume", "auto")
        self.runtime("train", "c.toml", "--set", "job.dump_folder=whole", "--quiet")
        self.runtime("checkpoint", "export", "run", "--output", "exported.safetensors")
        self.write("new.csv", table(rows(2, 9), labelled=False))
        expected = self.predict("--data", "new.csv", weights="whole/weights.safetensors")
        for weights in ("run/weights.safetensors", "exported.safetensors"):
            self.assert_same(self.predict("--data", "new.csv", weights=weights), expected)

    def test_two_ranks_predict_as_one(self):
        lines = self.train()
        self.runtime("train", "c.toml", "--set", "job.dump_folder=two", "--quiet", "--nproc", "2", "--set", "debug.deterministic=true")
        self.runtime("train", "c.toml", "--set", "job.dump_folder=one", "--quiet", "--set", "debug.deterministic=true")
        self.write("new.csv", table(lines[:9], labelled=False))
        self.assert_same(self.predict("--data", "new.csv", weights="two/weights.safetensors"),
                         self.predict("--data", "new.csv", weights="one/weights.safetensors"))

    def test_weights_without_statistics_are_refused(self):
        self.train()
        with open(self.path("run/weights.safetensors"), "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), file.read()
        header["__metadata__"] = {"format": "pt"}
        text = json.dumps(header).encode()
        self.write("older.safetensors", struct.pack("<Q", len(text)) + text + data)
        for command in ("predict", "evaluate"):
            said = self.runtime(command, "c.toml", "--weights", "older.safetensors", code=5)
            self.assertIn("dataset.mean", said)

    def test_other_preparation_is_refused_by_name(self):
        self.train()
        said = self.runtime("predict", "c.toml", "--weights", "run/weights.safetensors", "--set", "dataset.standardize=false", "--set",
                            "dataset.mean=[1]", code=5)
        self.assertIn("dataset.standardize", said)
        self.assertIn("dataset.mean", said)

    def test_a_text_with_fewer_characters_keeps_their_ids(self):
        text = "the cat sat on the mat; a dog ran to it. " * 20
        self.write("text.txt", text)
        self.write("t.toml", TEXT.format(characters=len(set(text))))
        self.runtime("train", "t.toml", "--set", "job.dump_folder=text", "--quiet")
        arguments = ("evaluate", "t.toml", "--weights", "text/weights.safetensors")
        before = self.json_lines(*arguments)[-1]
        self.write("other.txt", text[int(len(text) * 0.75):])
        after = self.json_lines(*arguments, "--part", "train", "--set", "dataset.path=other.txt", "--set",
                                "dataset.validation_split=0")[-1]
        self.assertEqual(before["samples"], after["samples"])
        self.assertAlmostEqual(before["loss"], after["loss"], places=6)
        self.write("few.txt", "a cat sat on it")
        self.runtime(*arguments, "--part", "train", "--set", "dataset.path=few.txt", "--set", "dataset.validation_split=0")

    def test_pictures_need_no_folders_of_classes(self):
        def png(red):
            def chunk(kind, data):
                return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            rows = (b"\0" + bytes([red, 20, 200 - red // 2]) * 4) * 4
            return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        for i in range(8):
            self.write(f"photos/{('cat', 'dog')[i % 2]}/{i}.png", png(20 * i + 40 * (i % 2)))
        self.write("p.toml", """
[model]
input = [3, 4, 4]
layers = [{ type = "flatten" }, { type = "linear", features = 2 }]
[dataset]
format = "images"
path = "photos"
validation_split = 0.5
[training]
global_batch_size = 4
epochs = 2
[device]
backend = "cpu"
""")
        self.runtime("train", "p.toml", "--set", "job.dump_folder=pictures", "--quiet")
        weights = "pictures/weights.safetensors"
        validation = self.json_lines("predict", "p.toml", "--weights", weights)
        self.assertEqual([line["label_name"] for line in validation], [line["file"].split("/")[-2] for line in validation])
        for line in validation:
            with open(self.path(line["file"]), "rb") as file:
                self.write("new/" + os.path.basename(line["file"]), file.read())
        found = {os.path.basename(line["file"]): line for line in self.json_lines("predict", "p.toml", "--weights", weights, "--data", "new")}
        for line in validation:
            other = found[os.path.basename(line["file"])]
            self.assert_close([other], [line])
            self.assertNotIn("label", other)
        one = self.json_lines("predict", "p.toml", "--weights", weights, "--data", validation[0]["file"])
        self.assert_close(one, validation[:1])

    def test_numbers_of_images_are_refused_by_name(self):
        pixels = bytes(random.Random(3).randrange(256) for _ in range(24 * 16))
        self.write("x.idx", struct.pack(">IIII", 0x803, 24, 4, 4) + pixels)
        self.write("y.idx", struct.pack(">II", 0x801, 24) + bytes(i % 2 for i in range(24)))
        self.write("i.toml", """
[model]
input = [1, 8, 8]
layers = [{ type = "flatten" }, { type = "linear", features = 2 }]
[dataset]
format = "idx"
path = "x.idx"
target_path = "y.idx"
resize = [8, 8]
mean = [0.4]
validation_split = 0.25
[training]
global_batch_size = 6
epochs = 1
[device]
backend = "cpu"
""")
        self.runtime("train", "i.toml", "--set", "job.dump_folder=images", "--quiet")
        weights = "images/weights.safetensors"
        validation = self.json_lines("predict", "i.toml", "--weights", weights)
        self.write("new.idx", struct.pack(">IIII", 0x803, 6, 4, 4) + pixels[18 * 16:])
        self.assert_same(self.json_lines("predict", "i.toml", "--weights", weights, "--data", "new.idx"), validation)
        self.assertIn("dataset.mean", self.runtime("predict", "i.toml", "--weights", weights, "--set", "dataset.mean=[0.5]", code=5))


PICTURES = """
[model]
input = [3, 6, 5]
layers = [{ type = "conv2d", channels = 4, kernel = 3 }, { type = "batch_norm", activation = "relu" },
          { type = "flatten" }, { type = "linear", features = 2 }]
[dataset]
format = "images"
path = "photos"
resize = [6, 5]
mean = [0.4, 0.5, 0.6]
std = [0.2, 0.3, 0.1]
validation_split = 0.25
[training]
global_batch_size = 8
epochs = 3
[optimizer]
average_decay = 0.5
[device]
backend = "cpu"
tune = "off"
"""
TEXT = """
[model]
input = [8]
layers = [{{ type = "embedding", features = 8, vocabulary = {characters} }}, {{ type = "linear", features = {characters} }}]
[dataset]
format = "text"
path = "text.txt"
validation_split = 0.25
[training]
global_batch_size = 8
epochs = 3
[device]
backend = "cpu"
tune = "off"
"""
ARRAYS = """
[model]
input = [3]
layers = [{ type = "linear", features = 8, activation = "tanh" }, { type = "linear", features = 2 }]
[dataset]
format = "npy"
path = "x.npy"
target_path = "y.npy"
task = "regression"
standardize = true
validation_split = 0.25
[training]
dtype = "float64"
global_batch_size = 8
epochs = 3
[device]
backend = "reference"
"""


class EverywhereTheSame(Predicting):
    """A new file with the samples of the validation has its predictions, bit for bit, whatever the weights have gone through."""

    def train_in(self, folder, *arguments):
        self.runtime("train", "c.toml", "--quiet", "--set", "job.dump_folder=" + folder, "--set", "debug.deterministic=true", *arguments)
        return folder + "/weights.safetensors"

    def train_in_every_way(self, config, names=("weights",), imported=True):
        """Returns the files of weights that trainings in every way leave, by the names of the files of a run; the first is that of a whole run."""
        self.write("c.toml", config)
        self.train_in("whole")
        self.train_in("stopped", "--max-steps", "7")
        self.train_in("stopped", "--resume", "auto")
        self.train_in("two", "--nproc", "2")
        self.runtime("checkpoint", "export", "whole", "--output", "exported.safetensors")
        files = {name: [f"{run}/{name}.safetensors" for run in ("whole", "stopped", "two")] for name in names}
        files["weights"].append("exported.safetensors")
        if imported:
            files["weights"].append(self.train_in("again", "--weights", "exported.safetensors", "--max-steps", "1", "--set", "optimizer.lr=0"))
        return files

    def check(self, config, keys, names=("weights",), imported=True):
        """Predicts with the weights of each way. `keys`: of a prediction."""
        for files in self.train_in_every_way(config, names, imported).values():
            expected = self.by_file(self.predict(weights=files[0]))
            self.assertGreater(len({json.dumps(line[keys[0]]) for line in expected}), 1, "all are predicted alike")
            for weights in files:
                with self.subTest(weights=weights):
                    self.assert_same(self.by_file(self.predict(weights=weights)), expected, keys)
                    self.assert_same(self.by_file(self.predict("--data", "new", weights=weights)), expected, keys)

    def by_file(self, lines):
        return sorted(lines, key=lambda line: os.path.basename(line.get("file", "")))

    def test_a_table(self):
        lines = list(rows(1, 50))
        self.write("train.csv", table(lines))
        self.write("new", table(lines[37:], labelled=False))
        self.check(TABLE.format(**CLASSES), ("probability", "predicted"))

    def test_arrays_of_float64(self):
        lines = [features for features, _ in rows(1, 50)]
        y = [[number / 1000 for number in features[:2]] for features in lines]
        for name, numbers in (("x.npy", lines), ("y.npy", y), ("new", lines[37:])):
            flat = [number for sample in numbers for number in sample]
            self.write(name, npy("<f8", (len(numbers), len(numbers[0])), struct.pack(f"<{len(flat)}d", *flat)))
        self.check(ARRAYS, ("predicted",))

    def test_a_text(self):
        text = "the cat sat on the mat; a dog ran to it. " * 20
        self.write("text.txt", text)
        self.write("new", text[int(len(text) * 0.75):])
        expected = set()
        for weights in self.train_in_every_way(TEXT.format(characters=len(set(text))))["weights"]:
            arguments = ("c.toml", "--weights", weights)
            validation = self.json_lines("evaluate", *arguments)[-1]
            new = self.json_lines("evaluate", *arguments, "--part", "train", "--set", "dataset.path=new", "--set", "dataset.validation_split=0")[-1]
            said = self.runtime("predict", *arguments, "--prompt", "the cat", "--tokens", "30", "--seed", "3")
            for measured in (validation, new):
                expected.add((measured["samples"], measured["loss"], measured["accuracy"], said))
        self.assertEqual(len(expected), 1, expected)

    def test_pictures(self):
        files = [file for _, file, _ in kinds_of_png()] + [file for _, file, _ in turned_pngs(range(1, 9))]
        for i, file in enumerate(files):
            self.write(f"photos/{('cat', 'dog')[i % 2]}/{i:02}.png", file)
        self.write("c.toml", PICTURES)
        self.train_in("first", "--max-steps", "1")
        for line in self.predict(weights="first/weights.safetensors"):
            name = os.path.basename(line["file"])
            self.write("new/" + name, files[int(name[:2])])
        # Importing takes a step, and with it the statistics of batch_norm change.
        for key in ("", "\nresize_shorter = 7"):
            with self.subTest(key=key):
                for run in ("whole", "stopped", "two"):
                    shutil.rmtree(self.path(run), ignore_errors=True)
                self.check(PICTURES.replace("\nresize", key + "\nresize", 1), ("probability", "predicted"), ("weights", "average"), False)


if __name__ == "__main__":
    support.main()
