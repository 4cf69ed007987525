"""The step of check.py that runs random operations and random networks on the device. tests/differential describes both."""

import functools
import json
import os
import tempfile

from report import Cut, processes

NETWORKS = os.path.join("tests", "differential", "networks", "networks.py")
MOST_SHARDS = 15  # processes that run at the same time; what the results are compared with is computed by one thread of each
# The types of the random operations, with the seeds that each process runs; a seed is 100 cases.
OPERATIONS = (("float32", 6), ("bfloat16", 3), ("float16", 3))
NETWORK_SEEDS = 4  # random networks of each process
MOST_SECONDS = 400.0  # of one part of the step


def lines_of(path):
    """The results, one JSON object a line; a process that was ended may leave half of its last line."""
    if not os.path.exists(path):
        return []
    found = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return found


def shard(c, words, results, limit):
    """Runs a harness that appends to `results`. Returns its lines, and the program, which may have been ended."""
    try:
        done = c.ours(words, limit, {"OMP_NUM_THREADS": "1"})
    except Cut:
        done = None
    return lines_of(results), done


def in_shards(c, limit, words_of):
    """Runs processes for at most `limit` seconds. `words_of(index, results)` gives the command of each."""
    with tempfile.TemporaryDirectory(dir=c.scratch) as folder:
        files = [os.path.join(folder, f"{i}.jsonl") for i in range(processes(MOST_SHARDS))]
        return c.all_of([functools.partial(shard, c, words_of(i, file), file, limit) for i, file in enumerate(files)])


def range_of(c, index, seeds):
    first = c.arguments.first_seed + index * seeds
    return f"{first}..{first + seeds - 1}"


def judge(c, what, parts, text, good, failures):
    """Writes the row. `good`: how many cases were right; `failures`: a text for each that was not. A process that was cut
    counts with what it has done before.
    """
    ended = [done for _, done in parts if done is not None and done.code is not None]
    # Exit code 1 says that something was found, but also that Python broke off.
    broken = [done.reason() for lines, done in parts if done in ended and (done.code not in (0, 1) or not lines)]
    detail = text + (f", {len(parts) - len(ended)} of {len(parts)} processes cut" if len(ended) < len(parts) else "")
    if failures:
        detail += f", {len(failures)} found: " + "; ".join(failures[:3])
    if broken:
        detail += f", {len(broken)} processes broke off: {broken[0]}"
    if not failures and not broken and not any(lines for lines, _ in parts):
        return c.row(what, "cut", detail)
    return c.verdict(what, good > 0 and not failures and not broken, detail,
                     max((done.seconds for done in ended), default=0.0), found=failures)


def operations(c, program, dtype, seeds, limit):
    parts = in_shards(c, limit, lambda i, results: [
        program, "--device", c.device, "--plugin-path", c.path("lib", "runtime", "plugins"), "--types", dtype, "--no-shrink",
        "--seeds", range_of(c, i, seeds), "--results", results])
    chunks = [line for lines, _ in parts for line in lines]
    failures = [f"{f['case']}: {f['finding']['implementation']}: {f['finding']['detail']}"[:400]
                for chunk in chunks for f in chunk["failures"]]
    rows = [row for chunk in chunks for row in chunk["tally"]["rows"].values()]  # [cases, candidates, ...]
    cases = sum(row[0] for row in rows)
    text = f"{cases} cases, {sum(row[1] for row in rows)} candidates"
    judge(c, f"random operations, {dtype}", parts, text, cases - len(failures), failures)


def networks(c, limit):
    parts = in_shards(c, limit, lambda i, results: [
        c.arguments.python, NETWORKS, "--runtime", c.path("bin", "runtime"), "--device", c.device, "--no-shrink", "--seeds",
        range_of(c, i, NETWORK_SEEDS), "--append", results])
    if any(done is not None and done.code == 77 for _, done in parts):
        return c.skip("random networks", f"{c.arguments.python} has no torch or no numpy")
    lines = [line for some, _ in parts for line in some]
    failures = [f"seed {line['seed']}: {line['status']}: {line.get('what', '')}"[:400] for line in lines
                if line["status"] in ("wrong", "refused", "crashed")]
    good = sum(line["status"] == "ok" for line in lines)
    return judge(c, "random networks beside PyTorch", parts, f"{good} of {len(lines)} networks agree", good, failures)


def differential(c):
    """Every part of the step may use an equal share of the time that is left."""
    program, forms = c.path("tests", "differential_operations"), OPERATIONS[: 1 if c.arguments.quick else len(OPERATIONS)]
    if not os.path.exists(program):
        c.skip("random operations", f"{program} is not there; build with tests")
        forms = ()
    for i, (dtype, seeds) in enumerate(forms):
        limit = min(MOST_SECONDS, c.deadlines.left() / (len(forms) - i + 1))
        operations(c, program, dtype, 1 if c.arguments.quick else seeds, limit)
    return networks(c, min(MOST_SECONDS, c.deadlines.left()))
