"""Folders of runs and of sweeps for the tests of runtime-report, and the call of the program."""

import json
import math
import os
import subprocess

PROGRAM = os.environ.get("RUNTIME_REPORT", "runtime-report")


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def loss(step, rate):
    """A loss that falls from about 2.3."""
    return 0.3 + 2 * math.exp(-rate * step)


def write_run(folder, rate=0.01, steps=400, per_epoch=100):
    """A run with a line of metrics each 10 steps and a validation at the end of each epoch."""
    lines = []
    for step in range(10, steps + 1, 10):
        line = {"step": step, "epoch": (step - 1) // per_epoch, "loss": loss(step, rate), "lr": 0.1, "samples_per_second": 5000.0}
        if step % per_epoch == 0:
            line["validation_loss"] = loss(step, rate) + 0.05
            line["validation_accuracy"] = 1 - loss(step, rate) / 3
        lines.append(json.dumps(line))
    write(folder, "metrics.jsonl", "\n".join(lines) + "\n")
    write(folder, "config.toml", f"[optimizer]\nlr = {rate}\n[training]\nglobal_batch_size = 50\n")
    return folder


def profile(ranks):
    """A profile with names as long as those of real plugins, and with all parts of a step."""
    operations = [{"name": name, "layer": f"encoder.layers.{i}.attention", "phase": phase,
                   "implementation": "batch_blocked:conv2d_pool2d_backward_weights:avx512_core", "calls": 1, "time_ns": 1e6 / (i + 1),
                   "share": 0.3 / (i + 1), "flops": 1e9, "bytes": 1e7, "roofline_share": 0.5}
                  for i, (name, phase) in enumerate([("conv2d", "forward"), ("conv2d_pool2d_backward_weights", "backward"), ("sgd", "update")])]
    return {"format": 1, "world_size": ranks, "ranks": [
        {"rank": rank, "device": "cpu:0", "steps": [10, 59], "step_ns": 2.5e6,
         "phases": {"forward_ns": 1e6, "backward_ns": 8e5, "update_ns": 1e5, "pack_ns": 1e4},
         "communication": {"exposed_ns": 1e5, "hidden_ns": 3e5, "bytes": 516992}, "data_wait_ns": 2e4, "prepare_ns": 1e3,
         "upload_ns": 2e3, "report_ns": 3e3, "between_ns": 4e3, "exchange_ns": 5e3, "cpu_utilisation": 1.9, "device_utilisation": None,
         "operations": operations,
         "memory": {"persistent_bytes": 1 << 20, "peak_bytes": 5 << 20,
                    "timeline": [{"operation": i, "bytes": (2 + i % 3) << 20} for i in range(12)],
                    "alive_at_peak": [{"name": "activations of conv1", "bytes": 2 << 20}]}} for rank in range(ranks)]}


def write_sweep(folder, trials=20):
    """The best trial is the one with the learning rate that is nearest to 0.01."""
    lines = []
    for trial in range(trials):
        rate = 10 ** (-4 + 4 * trial / (trials - 1))
        lines.append(json.dumps({
            "trial": trial, "settings": {"optimizer.lr": rate, "optimizer.name": "sgd" if trial % 2 else "adamw"},
            "run": f"trial-{trial}", "rung": 0, "status": "failed" if trial == 3 else "done", "monitor": "validation_loss",
            "value": None if trial == 3 else abs(math.log10(rate) + 2) + 0.25, "seconds": 12.5}))
    write(folder, "sweep.jsonl", "\n".join(lines) + "\n")
    write(folder, "plan.json", json.dumps({"trials": [], "sweep": 'config = "job.toml"\n[search]\nmethod = "random"\n[parameters]\n'
                                           'optimizer.lr = { log_uniform = [0.0001, 1.0] }\noptimizer.name = ["sgd", "adamw"]\n'}))
    for trial in (9, 10):
        write_run(os.path.join(folder, f"trial-{trial}"))
    return folder


def report(arguments, folder):
    """Runs the program in a folder. Returns the finished process."""
    return subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, encoding="utf-8", errors="replace", timeout=100,
                          check=False)


def page_of(arguments, folder):
    """The page that the program makes."""
    done = report([*arguments, "--output", "page.html"], folder)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(folder, "page.html"), encoding="utf-8") as file:
        return file.read()
