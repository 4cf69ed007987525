#!/usr/bin/env python3
"""Trains vocabularies with the library tokenizers, and compares ids and texts of the runtime with the library's.

usage: trained_vocabularies.py TOKENIZER_LINES [--lines N] [--speed TEXT] [NAME...]

Random characters are those of Unicode 3.2 whose category is still the same, because the library has tables of several versions; the
first vocabulary gets all characters that Python knows. Exit code 0: all lines are equal, 1: some differ, 77: tokenizers is absent (skipped).
"""
import argparse
import collections
import io
import json
import os
import struct
import sys
import tempfile

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as error:
    print(f"skipped: {error}; install the Python package tokenizers, or set PYTHONPATH to where it is")
    sys.exit(77)

from comparison import compare, speed
from hard_text import HardText

N, P, D = normalizers, pre_tokenizers, decoders
SIZE = 3000
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def edited(tokenizer, change):
    """A tokenizer whose JSON was changed; bytes become tokens of the model alone."""
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] not in BYTES]
    change(data)
    return Tokenizer.from_str(json.dumps(data))


def common(corpus, count=1000):
    """The corpus with its most frequent characters alone, because Unigram takes all that there are."""
    kept = {character for character, _ in collections.Counter("".join(corpus)).most_common(count)}
    return ["".join(c for c in line if c in kept) for line in corpus]


def add_extra(tokenizer):
    tokenizer.add_tokens([AddedToken("EXTRA", single_word=True), AddedToken("<extra>", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("lazy dogs", normalized=True)])


def byte_level(corpus):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
    t.decoder = D.ByteLevel()
    t.post_processor = processors.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<|endoftext|>"], show_progress=False,
                                                      initial_alphabet=P.ByteLevel.alphabet()))
    add_extra(t)
    return t


def byte_level_with_split(corpus):
    t = Tokenizer(models.BPE())
    t.normalizer = N.NFC()
    t.pre_tokenizer = P.Sequence([P.Split(Regex(LLAMA3), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = D.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<|begin_of_text|>"], show_progress=False,
                                                      initial_alphabet=P.ByteLevel.alphabet()))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        "<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|> $B:1", [("<|begin_of_text|>", 0)])])
    return edited(t, lambda data: data["model"].update(ignore_merges=True))


def word_piece(corpus):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = N.BertNormalizer()
    t.pre_tokenizer = P.BertPreTokenizer()
    t.decoder = D.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=special, limit_alphabet=1000,
                                                            show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    add_extra(t)
    return t


def unigram(corpus):
    t = Tokenizer(models.Unigram())
    t.normalizer = N.Sequence([N.NFKC(), N.Strip(left=False), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Metaspace()
    t.decoder = D.Metaspace()
    t.train_from_iterator(common(corpus), trainers.UnigramTrainer(vocab_size=SIZE, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>",
                                                          show_progress=False))
    t.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    return t


def unigram_with_bytes(corpus):
    t = Tokenizer(models.Unigram())
    t.normalizer = N.Nmt()
    t.pre_tokenizer = P.Metaspace(prepend_scheme="first", split=False)
    t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace(prepend_scheme="first")])
    t.train_from_iterator(common(corpus), trainers.UnigramTrainer(vocab_size=SIZE, special_tokens=["<unk>", "<mask>"] + BYTES,
                                                          unk_token="<unk>", show_progress=False))
    return edited(t, lambda data: data["model"].update(byte_fallback=True))


def bpe_with_bytes(corpus):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = P.Metaspace()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=400,
                                                      show_progress=False))
    t.pre_tokenizer = None
    t.normalizer = N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])
    t.decoder = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return edited(t, lambda data: data["model"].update(byte_fallback=True, fuse_unk=True))


def bpe_of_words(corpus):
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="@"))
    t.normalizer = N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()])
    t.pre_tokenizer = P.Sequence([P.Whitespace(), P.Digits(individual_digits=True), P.Punctuation("merged_with_previous")])
    t.decoder = D.BPEDecoder()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<s>", "</s>", "<unk>"], limit_alphabet=300,
                                                      end_of_word_suffix="</w>", continuing_subword_prefix="@", show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    add_extra(t)
    return t


def bpe_cut_in_other_ways(corpus):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.normalizer = N.Sequence([N.NFKD(), N.Replace("a", "o"), N.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = P.Sequence([P.CharDelimiterSplit("e"), P.WhitespaceSplit(), P.Split("on", "merged_with_next"), P.Digits(),
                                  P.Split(Regex("[A-Z]+"), "contiguous", invert=True), P.Split(Regex("x|y"), "removed")])
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<unk>"], limit_alphabet=300, show_progress=False))
    add_extra(t)
    return t


def fields_of(message):
    """The fields of a message of Protocol Buffers: (number, value)."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                return value, at
    at = 0
    while at < len(message):
        key, at = varint(at)
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 == 2:
            size, at = varint(at)
        elif key & 7 == 0:
            value, at = varint(at)
        yield key >> 3, message[at:at + size] if key & 7 else value
        at += size


def sentence_piece(corpus):
    """A vocabulary of the library sentencepiece, with its table of characters that are replaced."""
    try:
        import sentencepiece
    except ImportError as error:
        print(f"sentence_piece is left out: {error}; install the Python package sentencepiece")
        return None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for line in common(corpus) if "\0" not in line), model_writer=model,
                                             vocab_size=1500, normalization_rule_name="nmt_nfkc", minloglevel=2,
                                             hard_vocab_limit=False)
    fields = list(fields_of(model.getvalue()))
    pieces = [dict(fields_of(value)) for number, value in fields if number == 1]
    table = next(value for number, value in fields_of(next(v for n, v in fields if n == 3)) if number == 2)
    t = Tokenizer(models.Unigram([(p[1].decode(), struct.unpack("<f", p.get(2, bytes(4)))[0]) for p in pieces], unk_id=0))
    t.normalizer = N.Sequence([N.Precompiled(table), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Metaspace()
    t.decoder = D.Metaspace()
    return t


ALL = [byte_level, byte_level_with_split, word_piece, unigram, unigram_with_bytes, bpe_with_bytes, bpe_of_words, bpe_cut_in_other_ways,
       sentence_piece]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--speed")
    arguments = parser.parse_intermixed_args()
    corpus = HardText(1).lines(5000)
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        for make in ALL:
            if arguments.names and make.__name__ not in arguments.names:
                continue
            tokenizer = make(corpus)
            if tokenizer is None:
                continue
            lines = HardText(2, newest=make.__name__ == "byte_level").lines(arguments.lines)
            differ += compare(arguments.program, make.__name__, tokenizer, path, lines)
            if arguments.speed:
                differ += not speed(arguments.program, make.__name__, tokenizer, path, arguments.speed)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
