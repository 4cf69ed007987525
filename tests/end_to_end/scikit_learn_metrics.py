#!/usr/bin/env python3
"""Compares every metric of `runtime evaluate` with scikit-learn's.

usage: scikit_learn_metrics.py RUNTIME

The logits of all samples come from `runtime gradients`, as one batch; `runtime evaluate` takes the same weights and samples in
small batches, on one and on three ranks. Features take few values, so that many scores are equal. Numbers must agree to 1e-9,
the confusion matrix exactly.
Exit code 0: all agree, 1: some differ, 77: scikit-learn is absent (skipped).
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from sklearn import metrics as sk
except ImportError as error:
    print(f"skipped: {error}; install python3-sklearn to run this comparison")
    sys.exit(77)

from exchange import read_safetensors, write_safetensors

TOLERANCE = 1e-9
SAMPLES, FEATURES = 203, 4
CONFIG = """
[model]
input = [{features}]
layers = [ {{ type = "linear", features = 6, activation = "tanh" }}, {{ type = "linear", features = {outputs} }} ]
[dataset]
format = "npy"
path = "x.npy"
target_path = "y.npy"
task = "{task}"
classes = {classes}
shuffle = false
[training]
global_batch_size = 203
dtype = "float64"
[device]
backend = "reference"
[validation]
metrics = {metrics}
"""
OF_CLASSES = ["accuracy", "precision", "recall", "f1", "precision_micro", "recall_micro", "f1_micro", "auroc", "confusion"]


def expected_of_classes(logits, labels, classes):
    predicted = logits.argmax(axis=1)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    options = {"labels": range(classes), "zero_division": 0}
    result = {"accuracy": sk.accuracy_score(labels, predicted),
              "confusion": sk.confusion_matrix(labels, predicted, labels=range(classes)).tolist()}
    for average in ("macro", "micro"):
        suffix = "_micro" if average == "micro" else ""
        result["precision" + suffix] = sk.precision_score(labels, predicted, average=average, **options)
        result["recall" + suffix] = sk.recall_score(labels, predicted, average=average, **options)
        result["f1" + suffix] = sk.f1_score(labels, predicted, average=average, **options)
    # Equal scores of repeated samples may differ in the last bits of the softmax.
    scores = np.round(probabilities, 12)
    if classes == 2:
        result["auroc"] = sk.roc_auc_score(labels, scores[:, 1])
    else:
        areas = [sk.roc_auc_score(labels == c, scores[:, c]) for c in range(classes) if (labels == c).any()]
        result["auroc"] = float(np.mean(areas))
        if len(areas) == classes:
            whole = sk.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
            assert abs(whole - result["auroc"]) < 1e-3, "multi_class='ovr' is the mean of these areas"
        for k in range(2, classes):
            result[f"top_{k}"] = sk.top_k_accuracy_score(labels, logits, k=k, labels=range(classes))
    return result


def expected_of_numbers(outputs, targets):
    return {"mse": sk.mean_squared_error(targets, outputs), "mae": sk.mean_absolute_error(targets, outputs),
            "r2": sk.r2_score(targets, outputs)}


def run(runtime, folder, *arguments):
    environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))
    done = subprocess.run([runtime, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"runtime {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def evaluations(runtime, folder):
    """The outputs of all samples, and what `evaluate` prints on one and on three ranks."""
    run(runtime, folder, "gradients", "job.toml", "--output", "pass.safetensors")
    tensors = read_safetensors(os.path.join(folder, "pass.safetensors"))
    prefix = "weights."
    weights = {name[len(prefix):]: value for name, value in tensors.items() if name.startswith(prefix)}
    write_safetensors(os.path.join(folder, "weights.safetensors"), weights, np.float64)
    evaluate = ["evaluate", "job.toml", "--weights", "weights.safetensors", "--part", "train",
                "--set", "training.global_batch_size=16"]
    printed = [json.loads(run(runtime, folder, *evaluate, "--nproc", str(ranks))) for ranks in (1, 3)]
    return tensors["logits"].astype(np.float64), printed


def differences(name, printed, expected):
    failures = 0
    for ranks, ours in zip((1, 3), printed):
        for metric, value in expected.items():
            agree = ours[metric] == value if metric == "confusion" else abs(ours[metric] - value) <= TOLERANCE
            failures += not agree
            print(f"{'ok  ' if agree else 'FAIL'} {name}, {ranks} ranks: {metric} {ours[metric]}, scikit-learn {value}")
    return failures


def compare(runtime, name, task, targets, classes, outputs, metrics, expect):
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="metrics-") as folder:
        np.save(os.path.join(folder, "x.npy"), random.integers(0, 3, (SAMPLES, FEATURES)).astype(np.float32))
        np.save(os.path.join(folder, "y.npy"), targets)
        with open(os.path.join(folder, "job.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(features=FEATURES, outputs=outputs, task=task, classes=classes, metrics=json.dumps(metrics)))
        found, printed = evaluations(runtime, folder)
    return differences(name, printed, expect(found))


def main():
    runtime = os.path.abspath(sys.argv[1])
    random = np.random.default_rng(0)
    failures = 0
    # With 7 outputs for labels below 5, two classes are absent and may all the same be predicted.
    for name, classes, present in (("binary", 2, 2), ("five classes", 5, 5), ("absent classes", 7, 5)):
        labels = random.integers(0, present, SAMPLES).astype(np.int32)
        labels[0] = present - 1
        top = [f"top_{k}" for k in range(2, classes)]
        failures += compare(runtime, name, "classification", labels, classes, classes, OF_CLASSES + top,
                            lambda logits, labels=labels, classes=classes: expected_of_classes(logits, labels, classes))
    for width in (1, 3):
        targets = (random.normal(size=(SAMPLES, width)) * 3 + 100).astype(np.float32)
        failures += compare(runtime, f"{width} targets", "regression", targets, 0, width, ["mse", "mae", "r2"],
                            lambda outputs, targets=targets: expected_of_numbers(outputs, targets.astype(np.float64)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
