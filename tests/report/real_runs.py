"""Runs of the program itself, small ones: their pages are what a reader sees, and what the screenshots are of."""
import json
import os
import subprocess

LAYERS = [{"id": "stem", "type": "conv2d", "out": 16, "kernel": 3, "pad": 1}, {"id": "stem_relu", "type": "relu"},
          {"id": "left", "type": "conv2d", "out": 16, "kernel": 3, "pad": 1}, {"id": "left_relu", "type": "relu"},
          {"id": "right", "type": "conv2d", "out": 16, "kernel": 3, "pad": 1}, {"id": "sum", "type": "add", "in": ["right", "stem_relu"]},
          {"id": "sum_relu", "type": "relu"}, {"id": "pool", "type": "max_pool", "kernel": 2},
          {"id": "wide", "type": "conv2d", "out": 32, "kernel": 3, "pad": 1}, {"id": "wide_relu", "type": "relu"},
          {"id": "pool_2", "type": "max_pool", "kernel": 2}, {"id": "flat", "type": "flatten"}, {"id": "hidden", "type": "linear", "out": 32},
          {"id": "hidden_relu", "type": "relu"}, {"id": "classes", "type": "linear", "out": 10}]
JOB = {"name": "shapes", "model": {"input": [1, 28, 28], "classes": 10, "layers": LAYERS},
       "data": {"type": "synthetic", "train_samples": 2048, "test_samples": 300, "normalize": {"mean": [0.5], "std": [0.25]}},
       "train": {"epochs": 5, "batch": 64, "optimizer": {"type": "adam", "lr": 0.003}, "schedule": {"type": "cosine", "warmup_epochs": 1}}}
PLANS = "single; dp=2; tp=2; pp=2,micro_batches=4; pp=2,micro_batches=4,schedule=zero-bubble"


def make(program, folder):
    """Trains, compares and profiles; {"train": page, ..}."""
    os.makedirs(folder, exist_ok=True)
    job = os.path.join(folder, "shapes.json")
    json.dump(JOB, open(job, "w"))
    commands = {"train": ["train", job, "--set", "train.precision=fp16", "--plan", "tp=2,pp=2,micro_batches=2"],
                "compare": ["compare", job, "--plans", PLANS, "--steps", "8", "--rounds", "2"],
                "profile": ["profile", job, "--plan", "pp=2,micro_batches=4", "--steps", "5"]}
    pages = {}
    for name, command in commands.items():
        result = subprocess.run([program, *command, "--runs", os.path.join(folder, "runs")], capture_output=True, text=True)
        assert result.returncode == 0, (command, result.stderr)
        pages[name] = os.path.join(folder, "runs", "shapes" if name == "train" else f"shapes-{name}", "report.html")
        assert os.path.exists(pages[name]), result.stderr
    return pages
