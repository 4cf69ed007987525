"""The step of check.py that reads hardware counters with Nsight Compute."""

import csv
import glob
import io
import os
import shutil

from report import sets
from speed import JOBS

# The plugin's own kernels that take most of the time outside cuBLASLt and cuDNN: purpose, a word of the kernel's name
# (backends/gpu), and the model in whose step it runs.
KERNELS = (("cross-entropy and its gradient", "CrossEntropy", "gpt2"), ("layer norm", "RowNorm", "gpt2"),
           ("post-operations", "ApplyPosts", "resnet18"), ("AdamW", "AdamW", "gpt2"),
           ("sums of batch norm's gradient", "GradientSums", "resnet18"))

# Maps ncu's names of figures to those of the report; from the sections of `--set full`.
FIGURES = {"Duration": "time", "DRAM Throughput": "of the memory's bandwidth", "Compute (SM) Throughput": "of the arithmetic",
           "Registers Per Thread": "registers", "Achieved Occupancy": "occupancy",
           "Local Memory Spilling Requests": "spilled requests"}
MOST_BYTES = 8 << 20  # size limit of reports that are kept


def program():
    return shutil.which("ncu") or next(
        (p for p in ("/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True))
         if os.path.exists(p)), None)


def figures(text):
    """Returns {figure: "value unit"} of the first kernel in the output of `ncu --csv --page details`."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found, first = {}, None
    for row in csv.DictReader(io.StringIO("\n".join(lines[head:]))):
        first = first or row["ID"]
        if row["ID"] == first and row.get("Metric Name") in FIGURES and row.get("Metric Value"):
            found.setdefault(FIGURES[row["Metric Name"]], f"{row['Metric Value']} {row.get('Metric Unit') or ''}".strip())
    return found


def ncu(c):
    """Profiles one launch of each of five of the plugin's kernels; the whole reports are kept."""
    if c.device != "cuda":
        return c.skip("ncu", "for CUDA")
    if program() is None:
        return c.skip("ncu", "not installed")
    for what, word, model in KERNELS:
        profile(c, f"{what} ({word})", word, next(job for job in JOBS if job.model == model))
    return None


def profile(c, what, word, job):
    report = os.path.join(c.scratch, f"ncu_{word}.ncu-rep")
    done = c.ours([program(), "--set", "full", "--clock-control", "none", "--kernel-name-base", "demangled", "--kernel-name",
                   f"regex:{word}", "--launch-count", "1", "--kill", "yes", "--force-overwrite", "--export", report,
                   c.path("bin", "runtime-bench"), job.config, "--steps", "1",
                   *sets(**{"device__backend": c.device, "training__global_batch_size": job.batch, "device__tune": "off",
                            "device__graph_capture": "false", **job.keys})], 150)
    if not os.path.exists(report):
        return c.verdict(what, False, f"no kernel of that name was profiled; {done.reason()}", done.seconds)
    if os.path.getsize(report) <= MOST_BYTES:
        shutil.copy(report, c.arguments.output)
    table = c.run([program(), "--import", report, "--csv", "--page", "details"], 60)
    found = figures(table.out)
    return c.verdict(what, bool(found), ", ".join(f"{name} {value}" for name, value in found.items()) or table.reason(),
                     done.seconds, **found)
