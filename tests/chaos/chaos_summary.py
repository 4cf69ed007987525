"""Prints the table of a long run."""
import json
from collections import Counter, defaultdict

COLUMNS = ("cases", "reached", "passed", "wrong", "not reached", "skipped")


def print_summary(path):
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    table = defaultdict(Counter)
    for result in results:
        for kind in (result["kind"], "all"):
            table[kind]["cases"] += 1
            table[kind][result["status"]] += 1
            table[kind]["reached"] += result["status"] in ("passed", "wrong")
    print("| kind | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for kind in sorted(table, key=lambda k: (k == "all", k)):
        print(f"| {kind} | " + " | ".join(str(table[kind][c]) for c in COLUMNS) + " |")
    codes = Counter(str(code) for result in results for code in result.get("codes", []))
    print("\nended with: " + ", ".join(f"{code}: {n}" for code, n in codes.most_common()))
    slowest = max((r for r in results if "took" in r), key=lambda r: r["took"], default=None)
    if slowest:
        print(f"slowest: {slowest['took']} s, seed {slowest['seed']} ({slowest['kind']})")
    wrong = [r for r in results if r["status"] == "wrong"]
    for result in wrong:
        print(f"wrong: seed {result['seed']} {result['kind']} {result['job']}: {result['what'][:200]}")
    return 1 if wrong else 0
