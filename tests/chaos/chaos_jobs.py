"""The small jobs that faults are injected into: their files and command lines."""
import gzip
import random
import struct

# Deadlines of the jobs in seconds: comm.timeout_s, init_timeout_s and save_timeout_s. The judge uses them as well.
TIMEOUT_S = 4
INIT_TIMEOUT_S = 8
SAVE_TIMEOUT_S = 4

CONFIG = f"""
[job]
dump_folder = "run"
overwrite = true
[model]
input = [6]
layers = [ {{ type = "linear", features = 5, activation = "relu" }}, {{ type = "linear", features = 3 }} ]
[dataset]
name = "synthetic"
samples = 60
classes = 3
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 6
[device]
backend = "reference"
tune = "off"
[metrics]
log_every_steps = 5
[comm]
timeout_s = {TIMEOUT_S}
init_timeout_s = {INIT_TIMEOUT_S}
save_timeout_s = {SAVE_TIMEOUT_S}
"""

# A training without an end, for faults that strike while ranks compute.
ENDLESS = "training.epochs=10000000"


def table(rows=60):
    lines = ["a,b,c,d,e,f,y"]
    for i in range(rows):
        lines.append(",".join(str(round((i * k % 17) / 7 - 1, 3)) for k in range(2, 8)) + f",{i % 3}")
    return "\n".join(lines) + "\n"


def idx(shape, numbers):
    return struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + bytes(numbers)


def write_data(folder):
    """Writes data sets in all formats that the jobs read."""
    random_bytes = random.Random(1)
    (folder / "table.csv").write_text(table())
    (folder / "images.idx").write_bytes(idx((60, 2, 3), [random_bytes.randrange(256) for _ in range(360)]))
    (folder / "labels.idx").write_bytes(idx((60,), [i % 3 for i in range(60)]))
    (folder / "images.idx.gz").write_bytes(gzip.compress((folder / "images.idx").read_bytes(), mtime=0))
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog; \u00e4\u00f6\u00fc.\n" * 20)
    (folder / "job.toml").write_text(CONFIG)


CSV = ["dataset.format=csv", "dataset.path=table.csv", "dataset.target=y"]
IDX = ["dataset.format=idx", "dataset.path=images.idx", "dataset.target_path=labels.idx", "model.input=[1,2,3]"]
GZIP = ["dataset.format=idx", "dataset.path=images.idx.gz", "dataset.target_path=labels.idx", "model.input=[1,2,3]", "model.layers=[{type=\"flatten\"},{type=\"linear\",features=3}]"]

WEIGHTS = ["--weights", "weights.safetensors"]

# name -> command, further arguments, `--set` settings, ranks
JOBS = {
    "train": ("train", [], [], 1),
    "train_csv": ("train", [], CSV, 1),
    "train_cpu": ("train", [], ["device.backend=cpu", "device.tune=quick"], 1),
    "train_idx": ("train", [], GZIP, 1),
    "train_from": ("train", WEIGHTS, [], 1),
    "evaluate": ("evaluate", WEIGHTS, [], 1),
    "predict": ("predict", WEIGHTS, [], 1),
    "gradients": ("gradients", ["--output", "gradients.safetensors"], [], 1),
    "record": ("verify", ["--record", "steps.safetensors"], [], 1),
    "plan": ("plan", [], [], 1),
    "bench": ("bench", ["--steps", "5", "--json"], [], 1),
    "devices": ("devices", None, [], 1),
    "show": ("config", None, [], 1),
    "local2": ("train", ["--nproc", "2"], ["debug.deterministic=true"], 2),
    "local3_zero": ("train", ["--nproc", "3"], ["parallelism.zero_stage=3", "optimizer.name=adamw"], 3),
    "gloo2": ("train", ["--nproc", "2"], ["comm.backend=gloo"], 2),
    "gloo3": ("train", ["--nproc", "3"], ["comm.backend=gloo"], 3),
    "gloo4_mesh": ("train", ["--nproc", "4"], ["comm.backend=gloo", "parallelism.tensor=2", "parallelism.pipeline=2"], 4),
    "gloo3_zero": ("train", ["--nproc", "3"], ["comm.backend=gloo", "parallelism.zero_stage=2"], 3),
    "gloo2_asynchronous": ("train", ["--nproc", "2"], ["comm.backend=gloo", "parallelism.update=asynchronous",
                                                       "parallelism.max_staleness=2"], 2),
    "gloo2_evaluate": ("evaluate", ["--nproc", "2"] + WEIGHTS, ["comm.backend=gloo"], 2),
    "mpi2": ("train", ["--nproc", "2"], ["comm.backend=mpi"], 2),
}
# Jobs whose results depend on timing, through the choice of algorithms or the order of updates, even if two runs agree.
UNREPEATABLE = {"train_cpu", "gloo2_asynchronous"}


def command(job, settings=()):
    """The arguments of the program for this job."""
    verb, arguments, own, _ = JOBS[job]
    if job == "devices":
        return ["devices"]
    if job == "show":
        return ["config", "show", "job.toml"]
    words = [verb, "job.toml"] + list(arguments)
    for setting in list(own) + list(settings):
        words += ["--set", setting]
    return words


def ranks(job):
    return JOBS[job][3]


def has_processes(job):
    """Whether each rank is a process of its own, started by a launcher."""
    return job.startswith(("gloo", "mpi"))


def is_training(job):
    return JOBS[job][0] == "train"
