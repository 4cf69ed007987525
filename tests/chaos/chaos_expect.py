"""The outcomes that are allowed for a case: exit codes, and names that messages must contain. README.md explains each
exception."""
import errno
import os
import signal

import chaos_jobs

SIGNALS = {"TERM": 15, "INT": 2, "HUP": 1, "KILL": 9}
STOPS = ("TERM", "INT", "HUP")
ERROR_CODES = {2, 3, 4, 5}
# Results of a call that are no error: the caller continues or tries again.
HARMLESS = {"EINTR", "short", "delay"}
# Functions in which EINTR counts as an error, because calls on a local disk are never interrupted.
NOT_INTERRUPTED = {"open", "close", "flock", "fsync"}

# Messages name these files otherwise: as the folder of the run and as "the standard output".
NAMED_OTHERWISE = {".runtime-run", "stdout"}


class Expected:
    """Allowed outcomes. `codes` are the allowed exit codes. The error text of a failed run must contain one of `names` (if
    there are any); if it failed with exit code 5, it must contain all of `file_words`."""

    def __init__(self, codes, names=(), file_words=()):
        self.codes, self.names, self.file_words = set(codes), list(names), list(file_words)


def stopped_by(name):
    """128 + n after saving, or death by the signal itself if the program does not handle signals yet."""
    return {128 + SIGNALS[name], -SIGNALS[name]}


def rank_words(rank):
    return [f"rank {rank}"]


def takes_signals(case, done, sent):
    """Whether every process handled signals when this one was sent: a training does from its first step until it has saved."""
    return sent.stage == "work" and chaos_jobs.is_training(case["job"]) and not done.has_saved()


def of_one_signal(case, done, sent):
    """(codes, names) for one signal."""
    name, to = sent.signal, sent.to
    if name == "KILL" and to == "launcher":
        return {-9}, []
    if name in ("KILL", "STOP"):
        return {4}, rank_words(to)
    if takes_signals(case, done, sent):
        return {128 + SIGNALS[name]}, []
    if to == "launcher":
        return stopped_by(name), []
    return {128 + SIGNALS[name], 4}, rank_words(to)  # the signal kills a rank that does not handle signals yet


def of_signals(case, done):
    endless = chaos_jobs.ENDLESS in case.get("settings", ())
    codes, names = set() if endless else {0}, []
    sent = [one for one in done.sent if one.got and one.signal != "PAUSE"]
    for one in sent:
        more_codes, more_names = of_one_signal(case, done, one)
        codes |= more_codes
        names += more_names
    if sum(1 for one in sent if one.signal in STOPS) > 1 and chaos_jobs.has_processes(case["job"]):
        codes.add(4)
    # mpirun gives ranks one second to end, and exits with its own variants of 128 + signal.
    if case["job"] == "mpi2":
        codes |= {4, 129, 130, 143, 137}
    of_saving = of_fault_in_saving(case, done)
    return Expected(codes | of_saving.codes, names + of_saving.names, of_saving.file_words)


def of_fault_in_saving(case, done):
    """Outcomes that the fault in saving adds to those of the signal; none if the run does not get as far as the fault."""
    if "how" not in case or not done.log:
        return Expected(set())
    result = of_crash(case, done) if case["how"] == "KILL" else of_syscall(case, done)
    return Expected(result.codes & {4, 5, -9}, result.names, result.file_words)


def of_crash(case, _):
    how, rank = case["how"], case["rank"]
    processes = chaos_jobs.has_processes(case["job"])
    if how == "TERM":
        of_rank = processes and rank != "-"
        return Expected({0} | stopped_by("TERM") | ({4} if of_rank else set()), rank_words(rank) if of_rank else [])
    if how == "STOP" and not processes:
        return Expected({0} | stopped_by("TERM"))
    if rank == "-":
        return Expected({-9})
    return Expected({4}, rank_words(rank))


def syscall_names(case):
    """The error text of the system, or our own for memory, threads, descriptors and missing files."""
    how, call = case["how"], case["call"]
    words = ["memory", "thread", "Resource temporarily unavailable", "ulimit"]
    if hasattr(errno, how):
        words.append(os.strerror(getattr(errno, how)))
    path = [w[5:] for w in case["variables"]["CHAOS"].split(":") if w.startswith("path=")]
    if chaos_jobs.has_processes(case["job"]) and case["rank"] != "-":
        words += rank_words(case["rank"])
    if call in ("read", "write", "poll") and path and path[0].startswith(("pipe", "anon_inode")):
        words.append("plugin")  # the pipe to the program that probes plugins
    return words + [p.strip(".") for p in path if not p.startswith(("socket", "pipe", "anon_inode"))]


def of_syscall(case, _):
    how, call = case["how"], case["call"]
    harmless = how in HARMLESS and not (how == "EINTR" and call in NOT_INTERRUPTED)
    if harmless or (call == "accept" and how == "ECONNABORTED"):
        return Expected({0})
    file_words = []
    if call in ("open", "write", "fsync", "rename") and hasattr(errno, how):
        path = [w[5:] for w in case["variables"]["CHAOS"].split(":") if w.startswith("path=")]
        file_words = [os.strerror(getattr(errno, how))] + [p.strip(".") for p in path if p not in NAMED_OTHERWISE]
    return Expected({0} | ERROR_CODES, syscall_names(case), file_words)


def of_descriptors(case, _):
    if "limits" in case:
        # 127: with fewer than 4 descriptors the dynamic loader cannot start the program.
        return Expected({0} | ERROR_CODES | {127}, ["open files", "ulimit", "descriptor", "pipe", "open"])
    bad_output = case["streams"].get("1") in ("closed", "/dev/full", "broken")
    return Expected({0, 5} if bad_output else {0}, ["standard output"])


def of_disk(case, _):
    if "limits" in case:
        return Expected({0, 3, 4, 5}, ["too large", "limit", "standard output", "run", "cache", "steps.safetensors", "gradients.safetensors"])
    words = ["No space", "Read-only", "space"]
    return Expected({0, 3, 4, 5}, words)


def of_memory(case, _):
    # 127: without memory for the libraries the dynamic loader ends the program.
    return Expected({0, 3, 4, 5, 127}, ["memory", "limit", "cannot allocate", "failed to map", "rank", "thread", "Resource"])


def of_plugin(case, done):
    how, job = case["how"], case["job"]
    processes = chaos_jobs.has_processes(job)
    names = ["chaos", case["call"], "plugin"]
    if case["program"] == "plugin_probe":
        return Expected({0, 2, 3, 4} if job != "devices" else {0}, names + rank_words(case["rank"]))
    if how in ("delay", "nan"):
        return Expected({0} if how == "delay" else {0, 6}, names)
    if how in ("abort", "segv", "exit", "quit", "hang") and not processes:
        own = {"abort": {-6}, "segv": {-11}, "exit": {3}, "quit": {7}, "hang": stopped_by("TERM")}[how]
        if chaos_jobs.ranks(job) > 1:
            own = own | {4}
            if done.exceeded_saving():  # the main rank hangs in work that it does alone (launch/README.md, "Saving")
                own = own | {5}
        return Expected(own | {3} | ({0} if how == "hang" else set()), [] if how != "exit" else names)
    if how in ("abort", "segv", "exit", "quit", "hang"):
        return Expected({3, 4}, rank_words(case["rank"]) + names)
    return Expected({0, 2, 3, 4, 6}, names + rank_words(case["rank"]))


def of_peers(_case, _done):
    return Expected({0})


def of_rendezvous(case, _):
    if case["by_hand"] == "leftovers":
        return Expected({0})
    if case["by_hand"] == "no_redis":
        return Expected({2, 4}, ["127.0.0.1", "no Redis"])
    return Expected({0, 4}, ["meeting", "rank"])


def of_damage(case, done):
    name = case["damage"]["file"]
    shown = [os.path.basename(done.damaged or name), "rank"]
    codes = {"job.toml": {0, 2, 3, 5, 6}, "table.csv": {0, 2, 5, 6}, "images.idx.gz": {0, 2, 5, 6}, "labels.idx": {0, 2, 5},
             "weights.safetensors": {5}, "run/.runtime-run": {0, 2, 5}, "cache": {0}, "run/metrics.jsonl": {0, 5},
             "run/config.toml": {0, 5}, "run/weights.safetensors": {0, 5}}[name]
    if name == "job.toml":
        shown = []  # the damaged value of a key may appear in any message
    if name.startswith(("table", "images", "labels")):
        shown += ["dataset", "model", "loss"]
    if name == "run/.runtime-run":
        shown += ["dump_folder"]
    return Expected(codes, shown + (["run"] if name.startswith("run/") else []))


def expected(case, done):
    table = {"signal": of_signals, "crash": of_crash, "syscall": of_syscall, "descriptors": of_descriptors, "disk": of_disk,
             "memory": of_memory, "plugin": of_plugin, "peers": of_peers, "rendezvous": of_rendezvous, "damage": of_damage}
    result = table[case["kind"]](case, done)
    if not done.reached:
        return Expected({0} | (result.codes & {129, 130, 143, -1, -2, -15}))
    return result


def describe(code):
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
