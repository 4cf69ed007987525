"""Pictures as other programs write them, and folders as other programs leave them.

What the program reads is seen in its weights: one step of a linear layer that begins with zeros adds to the row of a class
the picture of that class minus the mean of all, so a black picture among them gives every pixel of the others."""

import json
import os
import struct
import unittest
import zlib

import support

try:
    from PIL import Image, ImageOps
except ImportError:
    Image = None

WIDTH, HEIGHT = 11, 9  # all of PNG's seven passes have pixels
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, COLOUR: 3, PALETTE: 1, GREY_ALPHA: 2, COLOUR_ALPHA: 4}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y and their steps
CONFIGURATION = """
[model]
input = [{channels}, {height}, {width}]
init = {{ constant = 0.0 }}
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"
features = {classes}
[dataset]
format = "images"
path = "{path}"
[training]
steps = 1
global_batch_size = {classes}
[optimizer]
lr = {classes}.0
[device]
backend = "cpu"
[job]
dump_folder = "{path}_run"
"""


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def exif(orientation, order=">"):
    begin = b"MM\0*" if order == ">" else b"II*\0"
    return begin + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def sample(x, y, channel, limit):
    """A number in 0..limit that differs between neighbours, rows and channels."""
    return ((x * 7 + y * 29 + channel * 83) * 40503 + x * y) % (limit + 1)


def pack(numbers, depth):
    if depth == 16:
        return struct.pack(f">{len(numbers)}H", *numbers)
    bits = "".join(format(number, f"0{depth}b") for number in numbers)
    return bytes(int(bits[i:i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))


class Png:
    """A PNG file of any kind, and the picture that it holds as rows of (red, green, blue)."""

    def __init__(self, kind, depth, interlaced=False, before=b"", behind=b""):
        self.kind, self.depth = kind, depth
        limit = (1 << depth) - 1
        self.samples = [[tuple(sample(x, y, c, limit) for c in range(CHANNELS[kind])) for x in range(WIDTH)] for y in range(HEIGHT)]
        self.colours = [tuple(sample(i, 3, c, 255) for c in range(3)) for i in range(limit + 1)] if kind == PALETTE else []
        rows = b"".join(self.rows(*a_pass) for a_pass in (PASSES if interlaced else [(0, 0, 1, 1)]))
        header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, kind, 0, 0, int(interlaced))
        palette = chunk(b"PLTE", bytes(sum(self.colours, ()))) if self.colours else b""
        of_palette, others = (before, b"") if before[4:8] == b"tRNS" else (b"", before)
        self.file = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + others + palette + of_palette
                     + chunk(b"IDAT", zlib.compress(rows)) + behind + chunk(b"IEND", b""))

    def rows(self, left, top, across, down):
        rows = [self.samples[y][left::across] for y in range(top, HEIGHT, down)]
        return b"".join(b"\0" + pack([number for pixel in row for number in pixel], self.depth) for row in rows if row)

    def colour(self, pixel):
        if self.kind == PALETTE:
            return self.colours[pixel[0]]
        scaled = [round(number * 255 / ((1 << self.depth) - 1)) for number in pixel]
        return tuple(scaled[:3]) if self.kind in (COLOUR, COLOUR_ALPHA) else (scaled[0],) * 3

    def picture(self):
        return [[self.colour(pixel) for pixel in row] for row in self.samples]


def turned(rows, orientation):
    """The picture that people see of one that is stored, as EXIF defines the numbers."""
    if orientation in (3, 4, 6, 7):
        rows = rows[::-1]
    if orientation in (2, 3, 7, 8):
        rows = [row[::-1] for row in rows]
    return [list(column) for column in zip(*rows)] if orientation >= 5 else rows


DEPTHS = ([(GREY, depth) for depth in (1, 2, 4, 8, 16)] + [(PALETTE, depth) for depth in (1, 2, 4, 8)]
          + [(kind, depth) for kind in (COLOUR, GREY_ALPHA, COLOUR_ALPHA) for depth in (8, 16)])
PROFILE = b"made up\0\0" + zlib.compress(b"no profile" * 20)
CHUNKS = [chunk(b"gAMA", struct.pack(">I", gamma)) for gamma in (100000, 45455, 220000)] + [
    chunk(b"sRGB", b"\0"), chunk(b"iCCP", PROFILE), chunk(b"sBIT", b"\5\5\5"),
    chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)) + chunk(b"gAMA", struct.pack(">I", 100000))]


def kinds_of_png():
    """Names, files and expected pictures; the pictures lie as WIDTH x HEIGHT."""
    for kind, depth in DEPTHS:
        for interlaced in (False, True):
            png = Png(kind, depth, interlaced)
            yield f"kind {kind} of {depth} bits{', interlaced' if interlaced else ''}", png.file, png.picture()
    for extra in CHUNKS:
        png = Png(COLOUR, 8, before=extra)
        yield f"colour with {extra[4:8].decode()}{extra[8:12].hex()}", png.file, png.picture()
    for kind, depth, clear in ((GREY, 8, b"\0\x17"), (GREY, 16, b"\0\0"), (COLOUR, 8, b"\0\1\0\2\0\3"), (PALETTE, 4, bytes(range(0, 160, 10)))):
        png = Png(kind, depth, before=chunk(b"tRNS", clear))
        yield f"kind {kind} of {depth} bits with tRNS", png.file, png.picture()
    png = Png(GREY, 8, before=chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "grey with gAMA", png.file, png.picture()


def turned_pngs(orientations):
    for number in orientations:
        for order in "<>":
            extra = chunk(b"eXIf", exif(number, order))
            yield f"{number}{order} before the pixels", Png(COLOUR, 8, before=extra).file, turned(Png(COLOUR, 8).picture(), number)
            yield f"{number}{order} behind the pixels", Png(COLOUR, 8, behind=extra).file, turned(Png(COLOUR, 8).picture(), number)


def black_png(width, height):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, GREY, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(bytes((width + 1) * height))) + chunk(b"IEND", b""))


class Decoded(support.Situation):
    def pixels(self, path, files, width=WIDTH, height=HEIGHT, channels=3):
        """Trains one step on files, (name, bytes) with a black one as the first, and returns rows of pixels for each."""
        for i, (ending, content) in enumerate(files):
            self.write(f"{path}/{i:03}/x.{ending}", content)
        self.write(path + ".toml", CONFIGURATION.format(path=path, classes=len(files), width=width, height=height, channels=channels))
        self.runtime("train", path + ".toml", "--quiet")
        with open(self.path(path + "_run", "weights.safetensors"), "rb") as file:
            content = file.read()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        begin, end = next(entry for entry in header.values() if len(entry.get("shape", [])) == 2)["data_offsets"]
        weights = struct.unpack(f"<{(end - begin) // 4}f", content[8 + size + begin:8 + size + end])
        count = width * height * channels
        of_files = [weights[i:i + count] for i in range(0, len(weights), count)]
        for of_file in of_files:
            flat = [255 * (number - black) for number, black in zip(of_file, of_files[0])]
            yield [[tuple(flat[(c * height + y) * width + x] for c in range(channels)) for x in range(width)] for y in range(height)]

    def compare(self, path, kinds, expected_of=lambda picture: picture, **size):
        """Kinds are (name, file, expected picture); all pixels must be within 1."""
        kinds = list(kinds)
        width, height = size.get("width", WIDTH), size.get("height", HEIGHT)
        black = black_png(width, height)
        files = [("png", black)] + [("png" if file[:1] == b"\x89" else "jpg", file) for _, file, _ in kinds]
        found = list(self.pixels(path, files, **size))[1:]
        for (name, _, expected), picture in zip(kinds, found):
            worst = max(abs(a - b) for row, other in zip(expected_of(expected), picture)
                        for pixel, seen in zip(row, other) for a, b in zip(pixel, seen))
            self.assertLessEqual(worst, 1.01, name)
        return len(kinds)


class Pictures(Decoded):
    def test_every_kind_of_png_keeps_its_samples(self):
        self.assertGreaterEqual(self.compare("colour", kinds_of_png()), 40)

    def test_grey_is_the_luma_of_the_samples(self):
        def luma(picture):
            return [[((299 * r + 587 * g + 114 * b) / 1000,) for r, g, b in row] for row in picture]
        self.compare("grey", kinds_of_png(), luma, channels=1)

    def test_pictures_stand_as_their_exif_says(self):
        self.compare("lying", turned_pngs(range(1, 5)))
        self.compare("standing", turned_pngs(range(5, 9)), width=HEIGHT, height=WIDTH)


@unittest.skipIf(Image is None, "Pillow (python3-pil) is not installed")
class BesidePillow(Decoded):
    """The same pictures, and JPEG files, as Pillow reads them."""

    def read(self, file):
        with Image.open(file) as image:
            if image.mode.startswith("I"):  # versions of Pillow differ in what they make of 16 bits of grey
                image = image.convert("I").point(lambda number: number / 257).convert("L")
            image = ImageOps.exif_transpose(image).convert("RGB")
            data = list(zip(*[iter(image.tobytes())] * 3))
            return [data[i:i + image.width] for i in range(0, len(data), image.width)]

    def with_pillow(self, kinds):
        for i, (name, file, _) in enumerate(kinds):
            yield name, file, self.read(self.write(f"{i}.picture", file))

    def jpegs(self, orientations):
        """A smooth picture in every way in which Pillow writes it."""
        lying = Image.new("RGB", (WIDTH, HEIGHT))
        lying.putdata([(x * 20, y * 25, 255 - x * 9 - y * 9) for y in range(HEIGHT) for x in range(WIDTH)])
        ways = [("RGB", {"subsampling": way}) for way in (0, 1, 2)] + [("RGB", {"progressive": True}), ("L", {}), ("CMYK", {}),
                                                                     ("CMYK", {"progressive": True, "subsampling": 2})]
        for mode, options in ways:
            for number in orientations:
                name = self.path("made.jpg")
                lying.convert(mode).save(name, quality=95, exif=b"Exif\0\0" + exif(number), **options)
                with open(name, "rb") as file:
                    yield f"{mode} {options} orientation {number}", file.read(), None

    def test_png(self):
        self.compare("colour", self.with_pillow(kinds_of_png()))
        self.compare("lying", self.with_pillow(turned_pngs(range(1, 5))))
        self.compare("standing", self.with_pillow(turned_pngs(range(5, 9))), width=HEIGHT, height=WIDTH)

    def test_jpeg(self):
        self.compare("lying", self.with_pillow(self.jpegs(range(1, 5))))
        self.compare("standing", self.with_pillow(self.jpegs(range(5, 9))), width=HEIGHT, height=WIDTH)


class Folders(support.Situation):
    def picture(self, name, level):
        self.write(name, black_png(2, 2) if level == 0 else Png(GREY, 8).file)

    def train(self, folder, classes, *options, **arguments):
        self.write("c.toml", CONFIGURATION.format(path=folder, classes=classes, width=2, height=2, channels=3))
        return self.runtime("train", "c.toml", *options, **arguments)

    def test_a_class_may_be_called_train_or_test(self):
        for name in ("car", "plane", "test", "train", "val"):
            self.picture(f"vehicles/{name}/1.png", 0)
        self.assertIn("5 samples of 2x2x3, 5 classes", self.train("vehicles", 5))

    def test_parts_are_still_parts(self):
        for name in ("train/car", "train/plane", "val/car", "val/plane", "test/car"):
            self.picture(f"parts/{name}/1.png", 0)
        said = self.train("parts", 2)
        self.assertIn("2 samples of 2x2x3, 2 classes", said)
        self.assertRegex(said, r"skipped: 1 beside the parts that are read \(\S*parts/test\)")

    def test_what_could_be_a_part_or_a_class_is_refused(self):
        for name in ("train/steam", "train/diesel", "car"):
            self.picture(f"both/{name}/1.png", 0)
        said = self.train("both", 2, code=5)
        self.assertIn('"car" beside it holds images', said)
        self.assertIn("set dataset.path =", said)

    def test_what_is_skipped_is_said_and_links_are_followed(self):
        for name in ("animals/cat/1.png", "animals/cat/._1.png", "animals/cat/.thumbnails/1.png", "elsewhere/2.png", "animals/dog/1.png"):
            self.picture(name, 0)
        self.write("animals/cat/Thumbs.db", "")
        self.write("animals/dog/3.webp", "")
        os.symlink("../../elsewhere", self.path("animals/dog/more"))
        os.symlink("../dog", self.path("animals/dog/round"))
        os.symlink("gone.png", self.path("animals/dog/4.png"))
        said = self.train("animals", 2)
        self.assertIn("3 samples of 2x2x3, 2 classes", said)
        for part in ("2 hidden (", "2 not *.png, *.jpg or *.jpeg (", "1 behind a link to nothing (", "1 again behind a link ("):
            self.assertIn(part, said)


if __name__ == "__main__":
    support.main()
