"""Lines of text that tokenizers find hard: emoji, combining marks, many scripts, code, random characters."""
import random
import sys
import unicodedata

WORDS = ("the quick brown fox isn't 42 over it's lazy dogs we'll I'd they've 3.14159 hello world "
         "Internationalization naïve café Straße İstanbul DŽUNGLA ﬁnance x² ½ Ⅷ re-entry e.g. don't I'M YOU'RE").split()
SCRIPTS = [(0x4E00, 0x9FA5), (0x3041, 0x3094), (0x30A1, 0x30FA), (0xAC00, 0xD7A3), (0x0621, 0x064A), (0x05D0, 0x05EA),
           (0x0905, 0x0939), (0x0E01, 0x0E30), (0x0B85, 0x0BB5), (0x1200, 0x1248), (0x13A0, 0x13F4), (0x16A0, 0x16EA),
           (0x10330, 0x1034A), (0x10400, 0x1044D), (0x0410, 0x044F), (0x0391, 0x03C9), (0x10D0, 0x10F6), (0x0531, 0x0556),
           (0x1780, 0x17B3), (0x1100, 0x11A2), (0x0F40, 0x0F69), (0x1D400, 0x1D454), (0x20000, 0x2A6D6), (0x0660, 0x0669)]
MARKS = [chr(c) for c in list(range(0x300, 0x34F)) + list(range(0x64B, 0x655)) + list(range(0x93E, 0x94E)) +
         list(range(0x5B0, 0x5BA)) + list(range(0x20D0, 0x20DD)) + [0x3099, 0x309A, 0xE31, 0xE34]]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "🇯🇵🇫🇷", "❤️", "🏳️‍🌈", "1️⃣", "🤷🏿‍♀️", "☃", "✌🏻", "👩‍💻"]
SPACES = [" ", "  ", "    ", "\t", "\n", "\r\n", "\n\n\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c",
          " \n ", "\u1680", "\u202f"]
ODD = ["\u200b", "\u200d", "\u200c", "\ufeff", "\u00ad", "\ufffd", "\x00", "\x01", "\x7f", "\x9f", "\ue000", "\u2060", "\u061c",
       "\U000f0000", "\ufffe", "\u2581", "\u2581\u2581", "Ġ", "Ċ", "ſ", "ﷺ", "㍿", "Å", "ﬀ", "①", "ｶﾞ", "㌔"]
SPECIAL = ["<s>", "</s>", "<unk>", "[MASK]", "[CLS]", "<|endoftext|>", "<|begin_of_text|>", "<0x41>", "<mask>", "[UNK]", "##ing",
           "<|endof", "<extra>", "EXTRA", " <extra> "]
CODE = ["for (int i = 0; i < n; ++i) { a[i] += b[i]; }", "def f(x):\n    return x ** 2  # square\n", "<a href=\"https://x.org/?q=1&r=2#s\">",
        "SELECT * FROM t WHERE a != 'b';", "{\"key\": [1, 2.5e-3, null]}", "#include <vector>\n\n\tstd::vector<int> v;", "a_b_c camelCase SNAKE_CASE",
        "\\begin{equation} \\alpha^2 \\end{equation}", "!!!???...,,,;;;", "--------------------", "$ ls -la | grep '^d' && echo \"ok\""]


def assigned(newest):
    """The characters that Unicode has in the version of Python, or those of them that have the same category in version 3.2."""
    characters = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cs", "Cn", "Co")]
    return [c for c in characters if newest or unicodedata.category(c) == unicodedata.ucd_3_2_0.category(c)]


class HardText:
    """Random lines; the same seed gives the same lines. `newest`: with characters of all versions of Unicode that Python knows."""

    def __init__(self, seed, newest=False):
        self.random = random.Random(seed)
        self.characters = assigned(newest)

    def script(self):
        first, last = self.random.choice(SCRIPTS)
        return "".join(chr(self.random.randint(first, last)) for _ in range(self.random.randint(1, 6)))

    def marked(self):
        base = self.random.choice("aeiouAEIOUnscдоकガが中q ")
        return base + "".join(self.random.choice(MARKS) for _ in range(self.random.randint(1, 4)))

    def chaos(self):
        return "".join(self.random.choice(self.characters) for _ in range(self.random.randint(1, 8)))

    def part(self):
        choose, draw = self.random.choice, self.random.random()
        for share, make in ((0.35, lambda: choose(WORDS)), (0.5, self.script), (0.6, self.marked), (0.7, self.chaos),
                            (0.77, lambda: choose(EMOJI)), (0.84, lambda: choose(ODD)), (0.88, lambda: choose(CODE)),
                            (0.92, lambda: choose(SPECIAL)), (0.95, lambda: str(self.random.randint(0, 10 ** 9))),
                            (0.96, lambda: choose("aé中😀") * self.random.randint(2, 150))):
            if draw < share:
                return make()
        return choose(SPACES)

    def line(self):
        text = ""
        for _ in range(self.random.randint(0, 14)):
            text += self.part()
            if self.random.random() < 0.7:
                text += self.random.choice(SPACES) if self.random.random() < 0.2 else " "
        return text

    def lines(self, count):
        return [self.line() for _ in range(count)]
