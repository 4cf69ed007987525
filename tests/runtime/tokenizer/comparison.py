"""Compares ids and texts of tokenizer_lines with those of the library tokenizers."""
import json
import subprocess
import time


def theirs(tokenizer, lines):
    plain = tokenizer.encode_batch(lines, add_special_tokens=False)
    marked = tokenizer.encode_batch(lines, add_special_tokens=True)
    for a, b in zip(plain, marked):
        yield [a.ids, b.ids, tokenizer.decode(b.ids, skip_special_tokens=False), tokenizer.decode(b.ids, skip_special_tokens=True)]


def ours(program, path, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    result = subprocess.run([program, path], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def compare(program, name, tokenizer, path, lines, shown=5):
    """Saves the tokenizer to `path`, prints how many lines are equal, and returns how many are not."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(path)
    differ = 0
    for line, a, b in zip(lines, theirs(tokenizer, lines), ours(program, path, lines), strict=True):
        if a == b:
            continue
        differ += 1
        if differ <= shown:
            print(f"{name}: {line!r}\n  theirs {a}\n  ours   {b}")
    print(f"{name}: {len(lines) - differ} of {len(lines)} lines are equal, both ways", flush=True)
    return differ


def speed(program, name, tokenizer, path, text_path):
    """Prints MB/s of both for one file as a whole, and returns whether the ids are equal."""
    with open(text_path, encoding="utf-8", newline="") as file:
        text = file.read()
    size = len(text.encode()) / 1e6
    tokenizer.save(path)
    begin = time.monotonic()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    seconds = time.monotonic() - begin
    result = json.loads(subprocess.run([program, path, "--time", text_path], stdout=subprocess.PIPE, check=True).stdout)
    print(f"{name}: {size / result['seconds']:.2f} MB/s, tokenizers {size / seconds:.2f} MB/s; {len(ids)} tokens", flush=True)
    return ids == result["ids"]
