"""Prints what the cases of a run cover, and which failed."""
import collections
import json
import re


def options_of(case):
    """The options of a case, with the values that are booleans or strings."""
    found = []
    for section, keys in case["config"].items():
        for key, value in keys.items():
            if section == "model" and key in ("input", "layers") or key.endswith("path"):
                continue
            shown = value if isinstance(value, (bool, str)) else next(iter(value)) if isinstance(value, dict) else "..."
            found.append(f"{section}.{key}={shown}")
    return sorted(found)


def message_kind(text):
    """A message without the details that differ from case to case: numbers, quoted names, places."""
    text = text.strip().split("\n")[-1] if "error:" not in text else text[text.index("error:"):]
    text = re.sub(r"[\"'].*?[\"']", "'...'", text)
    text = re.sub(r"[\w./-]*\.toml:\d+:\d+: ", "", text)
    text = re.sub(r"\[[\d, x]*\]", "[...]", text)
    return re.sub(r"\d+", "N", text)[:160]


def print_table(title, counter, columns=4):
    print(f"\n{title}")
    rows = [f"{name} {count}" for name, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))]
    width = max([len(row) for row in rows] or [1]) + 2
    columns = max(1, min(columns, 120 // width))
    for i in range(0, len(rows), columns):
        print("  " + "".join(row.ljust(width) for row in rows[i:i + columns]).rstrip())


def print_summary(path):
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    print(f"{len(results)} cases")
    print_table("status", collections.Counter(r["status"] for r in results))
    chaotic = sum(r.get("chaotic", False) for r in results)
    print(f"\n{chaotic} of them were not compared in float32 or 16 bits, since rounding alone moves PyTorch's losses far")
    print_table("layers (in how many cases)", collections.Counter(t for r in results for t in r.get("types", [])))
    pairs = collections.Counter(f"{a}>{b}" for r in results for a, b in r.get("pairs", []))
    print_table(f"adjacent pairs of layers and activations: {len(pairs)} different", pairs, 6)
    print_table("options", collections.Counter(o for r in results for o in r.get("options", [])), 3)
    worst = [(value, r["seed"], device) for r in results if r["status"] == "ok" for device, value in r.get("worst", {}).items()]
    for device in sorted({d for _, _, d in worst}):
        value, seed, _ = max(w for w in worst if w[2] == device)
        print(f"\nlargest distance on {device} of a right one: {value} of what is allowed (seed {seed})")
    for status in ("not possible", "refused", "crashed"):
        kinds = collections.Counter(f"{r.get('code')}: {message_kind(r.get('what', ''))}" for r in results if r["status"] == status)
        if kinds:
            print_table(status, kinds, 1)
    for r in results:
        if r["status"] == "wrong":
            print(f"wrong: seed {r['seed']} on {r.get('device')}: {r['what']} {r.get('file', '')}")
    return 0
