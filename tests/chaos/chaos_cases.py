"""Draws one case from one seed: the fault, the job, the place and the time. The case holds everything that a replay needs."""
import random

import chaos_jobs
from chaos_jobs import ENDLESS, has_processes

GLOO = ["gloo2", "gloo3", "gloo3_zero", "gloo4_mesh", "gloo2_asynchronous"]
ALONE = ["train", "train_csv", "train_cpu", "train_idx", "train_from"]
LOCAL = ["local2", "local3_zero"]
OTHERS = ["evaluate", "predict", "gradients", "record", "plan", "bench", "devices", "show", "gloo2_evaluate"]
ALL = ALONE + LOCAL + GLOO + OTHERS

# function -> faults of its calls
ERRORS = {
    "write": ["ENOSPC", "EIO", "EINTR", "EDQUOT", "EFBIG", "EPIPE", "short", "delay"],
    "read": ["EIO", "EINTR", "short", "delay"],
    "open": ["EACCES", "EMFILE", "ENFILE", "ENOENT", "EIO", "ENOSPC", "ENOMEM", "EROFS", "EINTR"],
    "fsync": ["EIO", "ENOSPC", "EINTR", "EDQUOT", "delay"],
    "close": ["EIO", "EINTR", "ENOSPC"],
    "rename": ["ENOSPC", "EIO", "EACCES", "EXDEV", "ENOENT", "delay"],
    "unlink": ["EACCES", "EIO"],
    "mkdir": ["ENOSPC", "EACCES", "EROFS"],
    "flock": ["ENOLCK", "EINTR"],
    "ftruncate": ["EIO", "ENOSPC"],
    "mmap": ["ENOMEM", "EAGAIN"],
    "socket": ["EMFILE", "ENFILE", "ENOBUFS"],
    "connect": ["ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "EINTR", "delay"],
    "bind": ["EADDRINUSE", "EACCES"],
    "listen": ["EADDRINUSE"],
    "accept": ["ECONNABORTED", "EMFILE", "EINTR", "delay"],
    "send": ["ECONNRESET", "EPIPE", "EINTR", "ENOBUFS", "short", "delay"],
    "recv": ["ECONNRESET", "EINTR", "ETIMEDOUT", "short", "delay"],
    "pipe": ["EMFILE", "ENFILE"],
    "poll": ["EINTR", "ENOMEM", "delay"],
    "fork": ["EAGAIN", "ENOMEM"],
    "thread": ["EAGAIN"],
    "malloc": ["ENOMEM"],
}
# Functions that transfer bytes, and may transfer fewer than they were asked to.
TRANSFERS = ("read", "write", "send", "recv")
# Functions that a rank calls while it connects to the others.
MEETING = ("socket", "bind", "listen", "connect", "accept", "send", "recv", "poll")
MEETING_FILES = ("open", "read", "write", "rename", "close")
FATAL_HOW = ["error", "memory", "timeout", "aborted", "unsupported", "communication", "status", "silent", "words", "throw",
             "throw_int", "nothing", "garbage", "null", "delay"]
CRASH_HOW = ["exit", "quit", "abort", "segv", "hang"]


def moment(r):
    """A moment, as a fraction of the duration of an undisturbed run."""
    return round(r.random(), 4)


def draw_signal(r, baselines):
    return draw_stop(r, baselines) if r.random() < 0.5 else draw_any_signal(r, baselines)


def draw_any_signal(r, baselines):
    endless = r.random() < 0.5
    with_mpi = r.random() < 0.3 and baselines.has_plugin("collectives_mpi")
    job = r.choice(["train"] * 2 + LOCAL + GLOO * 2 + (["mpi2"] if with_mpi else []) +
                   ([] if endless else ["evaluate", "predict", "gloo2_evaluate"]))
    processes = has_processes(job)
    actions, count = [], 1 if r.random() < 0.75 else 2
    for _ in range(count):
        to = r.choice(["launcher", "rank", "rank"]) if processes else "launcher"
        signal = r.choice(["KILL", "TERM", "INT", "HUP", "PAUSE", "PAUSE"] + (["STOP"] * 2 if to == "rank" else []))
        action = {"signal": signal, "to": to if to == "launcher" else r.randrange(chaos_jobs.ranks(job)),
                  "at": round(r.uniform(0, 0.8), 3) if endless else moment(r)}
        if signal == "PAUSE":  # STOP, and CONT `seconds` later
            action["seconds"] = round(r.uniform(0.05, 0.8), 3)
        actions.append(action)
    if any(a["signal"] == "STOP" for a in actions):  # the end of a pause would undo the STOP
        actions = [a for a in actions if a["signal"] != "PAUSE"]
    case = {"job": job, "actions": sorted(actions, key=lambda a: a["at"])}
    if endless:
        case["settings"] = [ENDLESS]
    if processes and not endless and r.random() < 0.3:
        case["settings"] = ["launch.max_restarts=1"]
    return case


def place(r, trace, want):
    """Draws one call of a traced run, and how many similar calls come before it: words for CHAOS or CHAOS_PLUGIN."""
    calls = [(key, n) for key, n in trace if want(key)]
    by_function = sorted({key[0] for key, _ in calls})
    if not by_function:
        return None
    function = r.choice(by_function)
    (name, rank, program, path), count = r.choice([c for c in calls if c[0][0] == function])
    words = [name, f"after={r.randrange(count)}"]
    if path:
        words.append(f"path={path}")
    return words, rank, program


def add_shim(r, case, trace_of, want):
    """Draws a call of the case's job, adds it to the case and returns the words for it; None if no call fits."""
    case["variables"] = {"LD_PRELOAD": "@shim"}
    found = place(r, trace_of(case), want)
    if found is None:
        return None
    words, rank, _ = found
    case["call"], case["rank"] = words[0], rank
    if rank != "-" or has_processes(case["job"]):
        words.append(f"rank={rank}")
    return words


def may_be_short(key):
    """False for a signalfd or an eventfd, which transfers all of its 8 or 128 bytes, or nothing."""
    return key[0] in TRANSFERS and key[3] != "anon_inode"


def shim_case(r, trace_of, jobs, want):
    case = {"job": r.choice(jobs)}
    words = add_shim(r, case, trace_of, want)
    return None if words is None else (case, words)


def draw_syscall(r, baselines):
    return draw_pieces(r, baselines) if r.random() < 0.25 else draw_any_call(r, baselines)


def draw_any_call(r, baselines):
    found = shim_case(r, baselines.trace, ALL, lambda key: key[0] in ERRORS)
    if found is None:
        return None
    case, words = found
    if case["job"] == "train_cpu" and case["call"] in ("malloc", "mmap"):  # oneDNN writes to memory whose allocation failed
        return None
    how = r.choice(ERRORS[case["call"]])
    if how == "short" and "path=anon_inode" in words:
        return None
    case["how"] = how
    if how == "short":
        words.append(f"short={r.choice([1, 1, 7, 100, 4000])}")
    elif how == "delay":
        words.append(f"delay={r.choice([1, 50, 300, 800])}")
    else:
        words.append(f"errno={how}")
    words.append(f"times={r.choice([1, 1, 1, 2, 10, 100] + ([0] if how not in ('EINTR', 'delay') else []))}")
    if how == "delay":  # one delay is shorter than every deadline; the sum of several may not be
        words[-1] = "times=1"
    case["variables"]["CHAOS"] = ":".join(words)
    return case


def draw_crash(r, baselines):
    return draw_frozen(r, baselines) if r.random() < 0.4 else draw_any_crash(r, baselines)


def draw_any_crash(r, baselines):
    """KILL, STOP or TERM exactly before a system call."""
    files = ("write", "fsync", "rename", "open", "close", "unlink", "mkdir", "flock")
    network = ("connect", "send", "recv", "accept", "listen", "poll", "read")
    wanted = files if r.random() < 0.7 else network
    found = shim_case(r, baselines.trace, ALONE + LOCAL + GLOO * 2 + ["gradients", "record"], lambda key: key[0] in wanted)
    if found is None:
        return None
    case, words = found
    how = r.choice(["KILL", "KILL", "KILL", "TERM"] + (["STOP"] if case["rank"] != "-" else []))
    case["how"] = how
    case["variables"]["CHAOS"] = ":".join(words + [f"signal={how}"])
    return case


def draw_stop(r, baselines):
    """A stop signal to a running training, mostly to its launcher, and often a fault in the saving that must follow."""
    case = {"job": r.choice(["train"] + LOCAL + GLOO * 2), "settings": [ENDLESS]}
    processes, ranks = has_processes(case["job"]), chaos_jobs.ranks(case["job"])
    to = r.randrange(ranks) if processes and r.random() < 0.3 else "launcher"
    stop = {"signal": r.choice(["TERM", "INT", "HUP"]), "to": to, "at": round(r.uniform(0, 0.3), 3)}
    case["actions"] = [stop]
    fault = r.choice(["none", "error", "error", "kill"] + ["lost while saving"] * processes)
    if fault == "none":
        return case
    calls = {"error": ("open", "write", "fsync", "close", "rename"), "kill": ("write", "fsync", "close", "rename"),
             "lost while saving": ("write", "fsync", "rename")}[fault]
    words = add_shim(r, case, baselines.trace, lambda key: key[0] in calls and "weights" in key[3])
    if words is None:
        return None
    if fault == "error":
        case["how"] = r.choice([e for e in ERRORS[case["call"]] if e not in ("short", "delay")])
        words += [f"errno={case['how']}", f"times={r.choice([1, 0]) if case['how'] != 'EINTR' else 1}"]
    elif fault == "kill":
        case["how"] = "KILL"
        words.append("signal=KILL")
    else:  # the signal comes while rank 0 waits for the disk
        words.append("delay=800")
        lost = {"signal": r.choice(["KILL", "STOP"]), "to": r.randrange(ranks), "at": round(stop["at"] + r.uniform(0.1, 0.6), 3)}
        case["actions"].append(lost)
    case["variables"]["CHAOS"] = ":".join(words)
    return case


def draw_frozen(r, baselines):
    """A rank stops for ever (as for a hanging device or a debugger) before any call that it makes while it connects to the
    others."""
    wanted = r.choice([("connect", "accept"), ("connect", "accept"), MEETING, MEETING_FILES])
    found = shim_case(r, baselines.trace_of_start, GLOO + ["gloo2_evaluate"], lambda key: key[1] != "-" and key[0] in wanted)
    if found is None:
        return None
    case, words = found
    case["how"] = "STOP"
    case["variables"]["CHAOS"] = ":".join(words + ["signal=STOP"])
    return case


def draw_pieces(r, baselines):
    """All transfers of one kind, or many of them, move a few bytes only."""
    on_sockets = r.random() < 0.7
    found = shim_case(r, baselines.trace, GLOO + ["gloo2_evaluate"] if on_sockets else ALL,
                      lambda key: may_be_short(key) and (not on_sockets or key[3] == "socket"))
    if found is None:
        return None
    case, words = found
    if r.random() < 0.5:  # begin with the first transfer: a hello, or the length of a message
        words = ["after=0" if word.startswith("after=") else word for word in words]
    case["how"] = "short"
    words += [f"short={r.choice([1, 2, 3, 5, 7, 8, 10, 13, 16])}", f"times={r.choice([0, 0, 0, 1, 10, 100])}"]
    case["variables"]["CHAOS"] = ":".join(words)
    return case


def draw_descriptors(r, _):
    job = r.choice(ALL)
    case = {"job": job}
    if r.random() < 0.35:
        case["limits"] = {"NOFILE": r.choice([3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 22, 26, 30, 40])}
        return case
    streams = {}
    for stream in (0, 1, 2):
        if r.random() < 0.5:
            streams[str(stream)] = r.choice(["closed", "/dev/full", "broken", "/dev/null"] if stream else ["closed", "/dev/null"])
    case["streams"] = streams or {"1": "closed"}
    return case


def draw_disk(r, _):
    job = r.choice(ALONE + LOCAL + GLOO + ["gradients", "record", "plan"])
    case = {"job": job}
    way = r.choice(["small", "small", "small", "inodes", "read_only", "file_size", "file_size"])
    if way == "file_size":
        case["limits"] = {"FSIZE": r.choice([0, 1, 10, 100, 500, 1000, 1500, 2000, 4096, 10000, 50000])}
        return case
    where = r.choice(["run", "run", "run", "tmp"])
    bound = {"small": r.choice([4, 8, 12, 16, 20, 24, 32, 48]), "inodes": r.choice([1, 2, 3, 4, 5, 6, 8, 12]), "read_only": 0}[way]
    case["disk"] = {"way": way, "where": where, "bound": bound}
    return case


def draw_memory(r, _):
    job = r.choice(ALL)
    return {"job": job, "limits": {"AS": int(2 ** r.uniform(24, 31))}}


def draw_plugin(r, baselines):
    communicator = r.random() < 0.3
    inner = "gloo" if communicator else r.choice(["reference", "reference", "cpu"])
    if communicator:
        case = {"job": r.choice(["gloo2", "gloo3_zero", "gloo4_mesh", "gloo2_evaluate"]), "settings": ["comm.backend=chaos"]}
    else:
        case = {"job": r.choice(["train"] * 3 + ["evaluate", "predict", "gradients", "record", "plan", "bench", "devices",
                                                 "local2", "gloo2", "gloo3_zero", "gloo4_mesh", "gloo2_asynchronous"]),
                "settings": ["device.backend=chaos"]}
    if case["job"] == "devices":
        case["settings"] = []
    library = f"@plugins/lib{'collectives' if communicator else 'backend'}_{inner}.so"
    case["variables"] = {"RUNTIME_PLUGIN_PATH": "@chaos", "CHAOS_PLUGIN_INNER": library}
    found = place(r, baselines.trace(case), lambda key: True)
    if found is None:
        return None
    words, rank, program = found
    how = r.choice(CRASH_HOW if r.random() < 0.3 else FATAL_HOW + ["nan"] * (words[0] == "launch"))
    if words[0] == "entry" and how == "garbage":  # no program can check the pointers of an invalid instance
        program = "plugin_probe"
    words += [f"how={how}", f"in={program}", f"times={r.choice([1, 1, 0])}"]
    if rank != "-":
        words.append(f"rank={rank}")
    case.update(call=words[0], how=how, rank=rank, program=program)
    case["variables"]["CHAOS_PLUGIN"] = ":".join(words)
    return case


def draw_peers(r, _):
    """Ranks listen for a few milliseconds only; the job has a rank that connects later, to give the foreign clients time."""
    late = f"connect:delay={r.choice([100, 300, 600])}:rank=1:path=socket"
    return {"job": r.choice(GLOO + ["gloo2_evaluate"]), "variables": {"LD_PRELOAD": "@shim", "CHAOS": late},
            "peers": r.choice(["reset", "garbage", "silent", "slow", "many", "hello", "all"])}


def draw_rendezvous(r, _):
    """Two ranks without our launcher meet in a folder or on a server that another process disturbs."""
    way = r.choice(["folder", "folder", "leftovers", "no_redis"])
    case = {"job": "gloo2", "by_hand": way}
    if way == "folder":
        case["spoil"] = r.choice(["remove", "garbage", "empty", "large", "folder", "link"])
        case["at"] = round(r.uniform(0, 0.4), 3)
    if way == "no_redis":
        case["words"] = r.choice(["", "HTTP/1.1 400 Bad Request\r\n\r\n", "-ERR no\r\n", "$99999999999\r\n", "*-5\r\n", "+OK\r\n",
                                  "\u0000" * 40, "close"])
    return case


DAMAGED = {
    "job.toml": ["train", "evaluate", "show", "gloo2", "local2"],
    "table.csv": ["train_csv"],
    "images.idx.gz": ["train_idx"],
    "labels.idx": ["train_idx"],
    "weights.safetensors": ["evaluate", "predict", "train_from", "gloo2_evaluate"],
    "run/.runtime-run": ["train", "gloo2"],
    "run/config.toml": ["train"],
    "run/metrics.jsonl": ["train", "gloo2"],
    "run/weights.safetensors": ["train", "local2"],
    "cache": ["train_cpu"],
}


def draw_damage(r, _):
    name = r.choice(sorted(DAMAGED))
    how = r.choice(["bit", "bit", "bits", "cut", "bytes", "empty", "insert", "number", "folder", "missing", "fifo_less", "zeros"])
    if how == "fifo_less":
        how = "unreadable_link"
    return {"job": r.choice(DAMAGED[name]), "damage": {"file": name, "how": how, "at": moment(r), "random": r.randrange(1 << 30)}}


KINDS = {"signal": (draw_signal, 4), "crash": (draw_crash, 4), "syscall": (draw_syscall, 7), "descriptors": (draw_descriptors, 2),
         "disk": (draw_disk, 2), "memory": (draw_memory, 2), "plugin": (draw_plugin, 6), "peers": (draw_peers, 1),
         "rendezvous": (draw_rendezvous, 1), "damage": (draw_damage, 3)}


def draw(seed, baselines, kinds=None):
    r = random.Random(f"chaos {seed}")
    names = [k for k in KINDS if not kinds or k in kinds]
    kind = r.choices(names, [KINDS[k][1] for k in names])[0]
    case = None
    while case is None:
        case = KINDS[kind][0](r, baselines)
    return {"seed": seed, "kind": kind, **case}
