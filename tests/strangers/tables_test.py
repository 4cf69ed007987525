"""Tables as other programs write them: headers made of numbers, large numbers, separators, words, byte order marks."""

import json
import random
import struct

import support

TABLE = """
[model]
input = [{width}]
layers = [{{ type = "linear", features = {outputs} }}]
[dataset]
{data}
[training]
global_batch_size = 4
epochs = 1
[optimizer]
lr = 0.01
[device]
backend = "cpu"
tune = "off"
"""


def preparation(path):
    """What a file of weights says about how its data were prepared."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header["__metadata__"]["preparation"])


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


class Tables(support.Situation):
    def config(self, data, width=2, outputs=2, name="c.toml"):
        self.write(name, TABLE.format(width=width, outputs=outputs, data=data))

    def csv(self, text, target="-1", more="", **options):
        self.write("t.csv", text)
        self.config(f'format = "csv"\npath = "t.csv"\ntarget = "{target}"\n{more}', **options)

    def train(self, *arguments, **options):
        return self.runtime("train", "c.toml", "--set", "job.dump_folder=run", "--set", "job.overwrite=true", *arguments, **options)

    def predict(self, *arguments):
        return self.json_lines("predict", "c.toml", "--weights", "run/weights.safetensors", *arguments)

    # ---- headers

    def test_a_header_of_numbers(self):
        rows = "".join(f"{i / 10},{-i},{i % 2}\n" for i in range(1, 9))
        self.csv("0,1,label\n" + rows)
        said = self.train()
        self.assertIn("8 samples of 2, 2 classes", said)
        found = preparation(self.path("run/weights.safetensors"))
        self.assertEqual((found["columns"], found["class_names"]), (["0", "1"], []))
        # years as names, the target named, labels that are words
        self.csv("2019,2020,kind\n" + rows.replace(",0\n", ",no\n").replace(",1\n", ",yes\n"), target="kind")
        self.assertIn("8 samples of 2, 2 classes", self.train())

    def test_samples_stay_samples(self):
        lines = [f"{5 + i / 10},{3 - i / 10},{('setosa', 'virginica')[i % 2]}\n" for i in range(8)]
        self.csv("".join(lines))
        self.assertIn("8 samples of 2, 2 classes", self.train())
        self.csv("".join(line.replace("virginica", "1") for line in lines))
        self.assertIn("8 samples of 2, 2 classes", self.train())

    def test_the_key_decides(self):
        text = "0,1,2\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(8))
        self.csv(text, more='header = "yes"')
        self.assertIn("8 samples of 2, 2 classes", self.train())
        self.csv(text, more='header = "no"', outputs=3)
        self.assertIn("9 samples of 2, 3 classes", self.train())
        self.assertIn("auto", self.runtime("config", "check", "c.toml", "--set", "dataset.header=perhaps", code=2))

    def test_a_header_that_nothing_tells_from_a_sample(self):
        self.csv("0,1,2,3\n" + "".join(f"{i},{i},{-i},{i % 2}\n" for i in range(1, 9)), width=3)
        self.assertIn("dataset.header", self.train(code=5))
        self.assertIn("8 samples of 3, 2 classes", self.train("--set", "dataset.header=yes"))

    def test_a_header_of_numbers_without_the_target(self):
        rows = [f"{i / 10},{-i}" for i in range(1, 9)]
        self.csv("0,1,label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows)))
        self.train()
        expected = self.predict("--part", "train")
        self.write("new.csv", "0,1\n" + "\n".join(rows) + "\n")
        found = self.predict("--data", "new.csv")
        self.assertEqual([(f["predicted"], f["probability"]) for f in found], [(e["predicted"], e["probability"]) for e in expected])

    def test_samples_that_hold_the_places_of_the_columns_are_samples(self):
        for width, rows in ((1, [[i] for i in range(8)]), (2, [[1, 0], [0, 1], [1, 1], [0, 0]] * 2)):
            lines = [",".join(map(str, row)) for row in rows]
            self.csv("".join(f"{line},{i * 0.5}\n" for i, line in enumerate(lines)), target="-1", width=width, outputs=1,
                     more='task = "regression"')
            self.train()
            expected = [line["predicted"] for line in self.predict("--part", "train")]
            self.write("new.csv", "\n".join(lines) + "\n")
            self.assertEqual([line["predicted"] for line in self.predict("--data", "new.csv")], expected)

    # ---- digits

    def assert_standardised(self, values):
        """The statistics are those of the numbers, and a new file has the predictions of the validation, bit for bit."""
        found = preparation(self.path("run/weights.safetensors"))
        mean = sum(v - values[0] for v in values) / len(values)
        deviation = (sum((v - values[0] - mean) ** 2 for v in values) / len(values)) ** 0.5
        self.assertEqual(found["feature_mean"][0], values[0] + mean)
        self.assertAlmostEqual(found["feature_deviation"][0], deviation, places=9)

    def test_large_numbers_in_a_table(self):
        values = [1700000000 + i for i in range(16)]
        rows = [f"{v},0.1,{i * 0.5}\n" for i, v in enumerate(values)]
        self.csv("time,same,y\n" + "".join(rows), target="y", more='task = "regression"\nstandardize = true\nvalidation_split = 0.25',
                 outputs=1)
        self.train()
        self.assert_standardised(values[:12])
        self.assertEqual(preparation(self.path("run/weights.safetensors"))["feature_deviation"][1], 1)
        validation = [f["predicted"] for f in self.predict()]
        self.assertEqual(len(set(map(tuple, validation))), 4)
        self.write("new.csv", "time,same\n" + "".join(row.rsplit(",", 1)[0] + "\n" for row in rows[12:]))
        self.assertEqual([f["predicted"] for f in self.predict("--data", "new.csv")], validation)

    def test_large_numbers_by_mean_and_std(self):
        rows = [f"{1700000000 + i},{i * 0.5}\n" for i in range(8)]
        self.csv("time,y\n" + "".join(rows), target="y", width=1, outputs=1,
                 more='task = "regression"\nmean = [1700000003.5]\nstd = [2.5]\nvalidation_split = 0.5')
        self.train()
        self.assertEqual(len({tuple(f["predicted"]) for f in self.predict()}), 4)

    def test_large_numbers_in_arrays(self):
        values = [1700000000 + i for i in range(16)]
        targets = npy("<f4", "(16, 1)", struct.pack("<16f", *(i * 0.5 for i in range(16))))
        files = {
            "npy": [npy("<i8", "(16, 1)", struct.pack("<16q", *values)), npy("<f8", "(16, 1)", struct.pack("<16d", *values)),
                    npy("<u4", "(16, 1)", struct.pack("<16I", *values)), npy("<i4", "(16, 1)", struct.pack("<16i", *values))],
            "idx": [struct.pack(">III", 0x0C02, 16, 1) + struct.pack(">16i", *values),
                    struct.pack(">III", 0x0E02, 16, 1) + struct.pack(">16d", *values)],
        }
        labels = {"npy": targets, "idx": struct.pack(">III", 0x0D02, 16, 1) + struct.pack(">16f", *(i * 0.5 for i in range(16)))}
        for kind, contents in files.items():
            for i, content in enumerate(contents):
                with self.subTest(format=kind, number=i):
                    self.write("x." + kind, content)
                    self.write("y." + kind, labels[kind])
                    self.config(f'format = "{kind}"\npath = "x.{kind}"\ntarget_path = "y.{kind}"\ntask = "regression"\n'
                                "standardize = true\nvalidation_split = 0.25", width=1, outputs=1)
                    self.train()
                    self.assert_standardised(values[:12])
                    validation = [f["predicted"] for f in self.predict()]
                    self.assertEqual(len(set(map(tuple, validation))), 4)
                    self.assertEqual([f["predicted"] for f in self.predict("--data", "x." + kind)][12:], validation)

    def test_integers_that_would_be_rounded(self):
        for number, written, kept in ((2**53 + 1, "9007199254740993", False), (-2**53 - 1, "-9007199254740993", False), (2**60, str(2**60), True),
                                      (2**64 + 1, "18446744073709551617", False), (2**53, "9007199254740992", True), (1e300, "9.1e18", True)):
            with self.subTest(number=written):
                self.csv(f"id,b,y\n1,2,0\n{written},3,1\n", target="y")
                said = self.runtime("config", "check", "c.toml", code=0 if kept else 5)
                if not kept:
                    self.assertIn(f"t.csv: line 3, column 1: {written} would be rounded", said)
                    self.assertIn('columns beside "id" in dataset.features', said)
                if abs(number) < 2**63:
                    self.write("x.npy", npy("<i8", "(2, 2)", struct.pack("<4q", 1, 2, 3, number)))
                    self.write("y.npy", npy("<i4", "(2,)", struct.pack("<2i", 0, 1)))
                    self.config('format = "npy"\npath = "x.npy"\ntarget_path = "y.npy"')
                    said = self.train(code=0 if kept else 5)
                    self.assertEqual(f"element 3 (column 1) is {number}, which would be rounded" in said, not kept, said)

    # ---- shares

    def sizes(self, count, split):
        self.csv("".join(f"{i},{i},{i % 2}\n" for i in range(count)), more=f"validation_split = {split}")
        said = self.train("--set", "training.global_batch_size=1")
        self.assertIn(f"{count} samples", said)
        return count - len(self.predict())

    def test_shares_are_decimal_numbers(self):
        for count, split, training in ((100, "0.34", 66), (10, "0.8", 2), (10, "0.9", 1), (5, "0.3", 3), (7, "0.1", 6), (1000, "0.001", 999)):
            self.assertEqual(self.sizes(count, split), training, (count, split))

    def test_shares_of_texts(self):
        self.write("t.txt", "abcdefghij" * 10)
        self.config('format = "text"\npath = "t.txt"\nvalidation_split = 0.34', width=4)
        text = TABLE.format(width=4, outputs=10, data='format = "text"\npath = "t.txt"\nvalidation_split = 0.34')
        self.write("c.toml", text.replace("layers = [", 'layers = [{ type = "embedding", features = 4, vocabulary = 10 }, '))
        self.assertIn("66 tokens", self.train())

    # ---- what cannot be read

    def refused(self, text, *words, target="y", more="", **options):
        """Both the check and the training refuse the table with the same words."""
        self.csv(text, target=target, more=more, **options)
        for command in (("config", "check", "c.toml"), ("train", "c.toml")):
            said = self.runtime(*command, code=5)
            for word in words:
                self.assertIn(word, said)

    def test_columns_that_are_no_numbers(self):
        self.refused("a,colour,y\n1,2,0\n2,red,1\n", 't.csv: line 3, column 2: "red" is not a number', '"colour"', "dataset.features")
        self.refused("a,age,y\n1,2,0\n2,,1\n", "line 3, column 2: the field is empty", 'columns beside "age"', "dataset.features")
        self.refused("a,b,y\n1,2,0\n2,3,cheap\n", 'line 3, column 3: "cheap"', 'dataset.target = "y"', more='task = "regression"')
        self.refused("1,2,0\nx,3,1\n", 'line 2, column 1: "x"', "columns beside 0", target="-1")
        self.refused("a,b,y\n1,2,0\n2,nan,1\n", "line 3, column 2: nan", "fill it in", 'columns beside "b"')
        self.refused("1,red,0\n2,3,1\n", 'line 1, column 2: "red"', "dataset.header", target="-1")

    def test_another_number_of_columns(self):
        self.csv("a,b,c,y\n1,2,3,0\n2,3,4,1\n", target="y")
        for command in (("config", "check", "c.toml"), ("train", "c.toml")):
            self.assertIn("model.input is [2], the data set has samples of [3]", self.runtime(*command, code=2))

    def test_another_number_of_classes_or_targets(self):
        self.csv("a,b,y\n1,2,0\n2,3,1\n4,5,2\n", target="y")
        for command in (("config", "check", "c.toml"), ("train", "c.toml")):
            self.assertIn("last layer has 2 outputs, the data set 3 classes; set model.outputs = 3", self.runtime(*command, code=2))
        self.csv("a,b,y\n1,2,0\n2,3,1\n", target="y", more='task = "regression"')
        for command in (("config", "check", "c.toml"), ("train", "c.toml")):
            self.assertIn("the last layer must have one feature for each target", self.runtime(*command, code=2))

    def test_other_separators(self):
        self.refused("a;b;y\n1,5;2,5;0\n2;3;1\n", "line 1", "no comma", "commas between the fields")
        self.refused("a\tb\ty\n1\t2\t0\n", "line 1", "no comma", "commas between the fields")
        self.refused("1,5;2,5;0\n1,5;3,5;1\n", "line 1", '"5;2"', "commas between the fields", target="-1")

    def test_a_table_that_is_not_there_is_no_fault_of_the_file(self):
        self.config('format = "csv"\npath = "none.csv"\ntarget = "-1"')
        self.assertIn("none.csv", self.runtime("config", "check", "c.toml"))

    def test_targets_far_from_unit_scale(self):
        draw = random.Random(1)
        rows = "".join(f"{draw.random()},{draw.random()},{200000 + 100000 * draw.random()}\n" for _ in range(16))
        self.csv("a,b,price\n" + rows, target="price", more='task = "regression"', outputs=1)
        for said in (self.train("--max-steps", "1"), self.runtime("config", "check", "c.toml")):
            self.assertIn("warning: the targets are about", said)
            self.assertIn('dataset.target = "price"', said)
        self.csv("a,b,price\n1,2,3.5\n2,3,4.5\n", target="price", more='task = "regression"', outputs=1)
        self.assertNotIn("warning: the targets", self.train("--max-steps", "1"))

    # ---- byte order marks and line ends

    def test_byte_order_marks(self):
        mark = "\ufeff"
        self.csv(mark + "a,b,y\r\n1,2,0\r\n2,3,1\r\n", target="y", more='features = ["a", "b"]')
        self.train("--max-steps", "1")
        with open(self.path("c.toml"), encoding="utf-8") as file:
            text = file.read()
        self.write("c.toml", mark + text.replace("\n", "\r\n"))
        self.runtime("config", "check", "c.toml")
        self.write("t.csv", "a,b,y\n1,2,0\n".encode("utf-16"))
        self.assertIn("UTF-16", self.runtime("config", "check", "c.toml", code=5))

    def language(self, text, characters, more=""):
        self.write("t.txt", text)
        self.write("c.toml", TABLE.format(width=4, outputs=characters, data=f'format = "text"\npath = "t.txt"\n{more}').replace(
            "layers = [", f'layers = [{{ type = "embedding", features = 4, vocabulary = {characters} }}, '))

    def test_a_text_with_a_mark(self):
        for tokenizer, size in (("char", 4), ("byte", 256)):
            self.language("\ufeff" + "abcd" * 8, size, f'tokenizer = "{tokenizer}"')
            self.assertIn("32 tokens", self.train("--max-steps", "1"))

    def test_files_of_a_tokenizer_with_marks_and_line_ends_of_windows(self):
        visible = [b for b in range(256) if 0x20 < b < 0x7F or (b > 0xA0 and b != 0xAD)]
        rest = [b for b in range(256) if b not in visible]
        symbols = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(rest)}
        tokens = [symbols[b] for b in range(256)] + ["ab", "abc"]
        vocabulary = json.dumps({token: i for i, token in enumerate(tokens)})
        merges = "#version: 0.2\na b\nab c\n"
        for mark, end in (("", "\n"), ("\ufeff", "\r\n"), ("", "\r\n")):
            self.write("gpt/vocab.json", mark + vocabulary.replace(", ", "," + end))
            self.write("gpt/merges.txt", mark + merges.replace("\n", end))
            self.language(mark + "abc" * 32, 258, 'tokenizer = "gpt2"\ntokenizer_path = "gpt"')
            self.assertIn("32 tokens", self.train("--max-steps", "1"), (mark, end))


if __name__ == "__main__":
    support.main()
