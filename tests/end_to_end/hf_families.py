#!/usr/bin/env python3
"""Imports models that transformers makes with random weights, compares logits, loss and gradients, and exports them again.

usage: hf_families.py RUNTIME [FAMILY...]     (default: all)

Each model has the form of a real one at a small width. Language models are also trained for 50 steps, whose losses must agree within
1e-4. In float64 on the reference everything must agree within 1e-9 of a tensor's
largest value; transformers computes rotary positions and normalisations in float32, so torch.float32 is float64 meanwhile. In float32
on `cpu` the limit is 1e-5. The exported folder is loaded by transformers, which must give the same logits.
A BERT is compared with a head for classes, on padded texts of a table, and with one for hidden tokens. MiniLM, a sentence transformer, is
compared where MINILM names its folder: the vectors of 100 sentences within 1e-5.
Exit code 0: all agree, 1: some differ, 77: transformers is absent (skipped).
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
from unittest import mock

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; install transformers and torch to run this comparison")
    sys.exit(77)

from exchange import read_safetensors

VOCABULARY, LENGTH, BATCH = 67, 24, 3
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(**more):
    return transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                   max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                   pad_token_id=None, **more)  # with one, its row would get no gradient from look-ups


FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**COMMON, rms_norm_eps=1e-5),
    "llama3": lambda: transformers.LlamaConfig(**{**COMMON, "num_hidden_layers": 1}, rope_parameters=LLAMA3, head_dim=16,
                                               tie_word_embeddings=True),
    "llama_bias": lambda: transformers.LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=5),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=7, max_window_layers=1,
                                              rope_parameters=YARN),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=8),
    "bert_class": lambda: bert(num_labels=3),
    "bert_mask": lambda: bert(),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                                            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0),
}


class Language:
    """A model that continues texts of numbers."""
    auto = transformers.AutoModelForCausalLM

    def files(self, work):
        tokens = np.random.default_rng(7).integers(0, VOCABULARY, 40 * LENGTH).astype("<u2")
        tokens.tofile(os.path.join(work, "text.tokens"))
        return {"dataset.format": "tokens", "dataset.path": os.path.join(work, "text.tokens"), "dataset.classes": VOCABULARY}

    def inputs(self, batch):
        return {"input_ids": integers(batch["features"])}

    def loss(self, logits, batch):
        return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), integers(batch["labels"]).reshape(-1))


class Encoder(Language):
    """A BERT, which is told the segments of tokens and which of them are padding."""

    def inputs(self, batch):
        return {"input_ids": integers(batch["features"]), "token_type_ids": integers(batch["inputs.segments"]),
                "attention_mask": (integers(batch["inputs.documents"]) >= 0).long()}


class Masked(Encoder):
    auto = transformers.AutoModelForMaskedLM

    def files(self, work):
        return {**super().files(work), "dataset.task": "masked_token", "dataset.mask_token": SPECIAL.index("[MASK]"),
                "dataset.tokenizer": '""', "dataset.tokenizer_path": '""'}

    def loss(self, logits, batch):
        weights = torch.from_numpy(np.array(batch["inputs.masked"])).to(logits.dtype).reshape(-1)
        losses = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), integers(batch["labels"]).reshape(-1), reduction="none")
        return (losses * weights).sum() / weights.sum()


class Classes(Encoder):
    auto = transformers.AutoModelForSequenceClassification

    def files(self, work):
        random = np.random.default_rng(7)
        with open(os.path.join(work, "texts.csv"), "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "other", "label"])
            for _ in range(40):
                rows.writerow([*(" ".join(f"w{i}" for i in random.integers(5, VOCABULARY, random.integers(1, 9))) for _ in range(2)),
                               random.integers(0, 3)])
        return {"dataset.path": os.path.join(work, "texts.csv"), "dataset.texts": '["text", "other"]'}

    def loss(self, logits, batch):
        return torch.nn.functional.cross_entropy(logits, integers(batch["labels"]))


TASKS = {"bert_class": Classes(), "bert_mask": Masked()}


def write_tokenizer(folder):
    """A vocabulary of words, so that a table of texts has the tokens that it says."""
    vocabulary = {token: i for i, token in enumerate(SPECIAL + [f"w{i}" for i in range(len(SPECIAL), VOCABULARY)])}
    marks = [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
             for i, token in enumerate(SPECIAL)]
    described = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": marks, "normalizer": None,
                 "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
                 "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                           "vocab": vocabulary}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(described, file)


def integers(array):
    return torch.from_numpy(np.array(array).astype(np.int64))


def make(name):
    """A model with random weights, also where transformers would begin with zeros or ones."""
    torch.manual_seed(1)
    config = FAMILIES[name]()
    config._attn_implementation = "eager"
    model = TASKS.get(name, Language()).auto.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def wide():
    """What transformers computes in float32 whatever the weights are, it computes in float64."""
    return [mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch, "float", torch.float64),
            mock.patch.object(torch.Tensor, "float", torch.Tensor.double)]


def theirs(task, folder, batch, dtype):
    """Logits, loss and gradients by transformers."""
    model = task.auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    patches = wide() if dtype == torch.float64 else []
    for patch in patches:
        patch.start()
    try:
        if hasattr(model.base_model, "rotary_emb"):
            model.base_model.rotary_emb = type(model.base_model.rotary_emb)(model.config)
        logits = model(**task.inputs(batch)).logits
        loss = task.loss(logits, batch)
        loss.backward()
    finally:
        for patch in patches:
            patch.stop()
    gradients = {name.removeprefix("transformer.").replace("cls.predictions.bias", "cls.predictions.decoder.bias"): p.grad
                 for name, p in model.named_parameters()}
    return logits.detach(), loss.detach(), gradients


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def difference(ours, other, scale=1e-30):
    """The largest difference, as a part of the tensor's largest value, or of `scale` if that is larger."""
    other = other.double().numpy()
    return float(np.abs(np.asarray(ours, dtype=np.float64).reshape(other.shape) - other).max() / max(np.abs(other).max(), scale))


def scale_of(name, gradients):
    """A bias is measured by its weight, too: that of keys has no effect where nothing turns them, and its gradient is rounding."""
    weight = gradients.get(name.removesuffix("bias") + "weight") if name.endswith("bias") else None
    return 1e-30 if weight is None else weight.abs().max().item()


def compare(runtime, name, settings, work, backend, dtype, limit):
    output = os.path.join(work, f"{backend}.safetensors")
    settings = {**settings, "model.input": [LENGTH], "training.global_batch_size": BATCH, "dataset.shuffle": "false",
                "device.backend": backend, "training.dtype": "float64" if dtype == torch.float64 else "float32"}
    sets = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    run(runtime, "gradients", os.path.join(work, "model", "config.toml"), *sets, "--output", output)
    ours = read_safetensors(output)
    logits, loss, gradients = theirs(TASKS.get(name, Language()), os.path.join(work, "hf"), ours, dtype)
    found = {"logits": difference(ours["logits"], logits), "loss": difference(ours["loss"], loss)}
    found.update({key: difference(ours[key], value, scale_of(key, gradients)) for key, value in gradients.items() if value is not None})
    worst = max(found, key=found.get)
    print(f"{name:<10} {backend:<9} {dtype}: {len(found)} tensors, largest difference {found[worst]:.1e} in {worst}, limit {limit}")
    return found[worst] <= limit, ours


def compare_losses(runtime, name, work):
    """Fifty steps of AdamW from the same weights on the same batches, in float32."""
    steps, rate = 50, 2e-3
    random = np.random.default_rng(9)
    tokens = np.zeros(steps * BATCH * LENGTH + 1, dtype="<u2")
    for i in range(1, len(tokens)):  # half of the tokens follow from the one before, so that there is something to learn
        tokens[i] = (3 * int(tokens[i - 1]) + 1) % VOCABULARY if random.random() < 0.5 else random.integers(0, VOCABULARY)
    path = os.path.join(work, "long.tokens")
    tokens.tofile(path)
    settings = {"dataset.format": "tokens", "dataset.path": path, "dataset.classes": VOCABULARY, "dataset.shuffle": "false",
                "model.input": [LENGTH], "training.global_batch_size": BATCH, "training.steps": steps, "training.max_norm": 0,
                "optimizer.lr": rate, "device.backend": "cpu", "metrics.log_every_steps": 1, "metrics.progress": "lines",
                "job.dump_folder": os.path.join(work, "run")}
    sets = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    run(runtime, "train", os.path.join(work, "model", "config.toml"), *sets)
    with open(os.path.join(work, "run", "metrics.jsonl"), encoding="utf-8") as file:
        ours = [json.loads(line)["loss"] for line in file][:steps]
    model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(work, "hf"), dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    inputs, labels = (integers(part).reshape(steps, BATCH, LENGTH) for part in (tokens[:-1], tokens[1:]))
    theirs_losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(input_ids=inputs[step]).logits.reshape(-1, VOCABULARY), labels[step].reshape(-1))
        loss.backward()
        optimizer.step()
        theirs_losses.append(loss.item())
    worst = max(abs(a - b) for a, b in zip(ours, theirs_losses, strict=True))
    print(f"{name:<10} cpu       {steps} losses from {ours[0]:.4f} to {ours[-1]:.4f}: largest difference {worst:.1e}, limit 1e-4")
    return worst <= 1e-4 and ours[-1] < ours[0]


def check(runtime, name):
    task = TASKS.get(name, Language())
    with tempfile.TemporaryDirectory() as work:
        model = make(name)
        model.save_pretrained(os.path.join(work, "hf"))
        if name in TASKS:
            write_tokenizer(os.path.join(work, "hf"))
        run(runtime, "import", "hf", os.path.join(work, "hf"), "--output", os.path.join(work, "model"))
        settings = task.files(work)
        good, batch = compare(runtime, name, settings, work, "reference", torch.float64, 1e-9)
        good &= compare(runtime, name, settings, work, "cpu", torch.float32, 1e-5)[0]
        if name not in TASKS:
            good &= compare_losses(runtime, name, work)
        run(runtime, "export", "hf", os.path.join(work, "model"), "--output", os.path.join(work, "back"))
        with torch.no_grad():
            first, second = (task.auto.from_pretrained(os.path.join(work, folder), dtype=torch.float32).eval()(**task.inputs(batch)).logits
                             for folder in ("hf", "back"))
        same = torch.equal(first, second)
        print(f"{name:<10} exported: logits {'equal' if same else 'differ'}")
        return good and same


def sentences():
    """A hundred sentences of many lengths."""
    random = np.random.default_rng(3)
    words = ("the river a quick bank of Paris money loans students naïve 3.14 C++ don't walked green while running, because "
             "everyone knew: \"it rains\" 日本語 café robots antidisestablishmentarianism").split()
    return [" ".join(random.choice(words, random.integers(1, 60))) for _ in range(100)]


def check_minilm(runtime, folder):
    """The vectors of sentences beside those of transformers with the pooling that its folder describes."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), pad_token="[PAD]")
    tokenizer.backend_tokenizer.no_truncation()
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    worst = 0.0
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        run(runtime, "import", "hf", folder, "--output", os.path.join(work, "model"))
        table = os.path.join(work, "sentences.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text"], *([text] for text in sentences())])
        output = run(runtime, "predict", os.path.join(work, "model", "config.toml"), "--weights",
                     os.path.join(work, "model", "weights.safetensors"), "--data", table, "--set", "model.input=[256]")
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        for text, row in zip(sentences(), rows, strict=True):
            encoded = tokenizer(text, return_tensors="pt")
            vector = model(**{key: encoded[key] for key in ("input_ids", "attention_mask")}).last_hidden_state[0].mean(dim=0)
            vector = torch.nn.functional.normalize(vector, dim=0)
            worst = max(worst, difference(row["predicted"], vector))
    print(f"MiniLM     vectors of {len(rows)} sentences: largest difference {worst:.1e}, limit 1e-5")
    return worst <= 1e-5


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = sys.argv[2:] or list(FAMILIES)
    results = {name: check(sys.argv[1], name) for name in names}
    if os.environ.get("MINILM"):
        results["MiniLM"] = check_minilm(sys.argv[1], os.environ["MINILM"])
    wrong = [name for name, good in results.items() if not good]
    print(f"{len(results) - len(wrong)} of {len(results)} families agree" + (f"; wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
