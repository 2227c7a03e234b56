"""Run folders made by hand, one of each kind, that hold everything a report can show."""
import base64
import json
import os
import struct
import zlib


def png(shade):
    raw = b"".join(b"\0" + bytes((shade * (x + y)) % 256 for x in range(8)) for y in range(8))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")).decode()


JOB = {"name": "made", "model": {"input": [1, 8, 8], "classes": 3, "layers": [
    {"id": "conv", "type": "conv2d", "out": 4, "kernel": 3, "pad": 1}, {"id": "relu", "type": "relu"},
    {"id": "conv2", "type": "conv2d", "out": 4, "kernel": 3, "pad": 1}, {"id": "sum", "type": "add", "in": ["conv2", "relu"]},
    {"id": "flat", "type": "flatten"}, {"id": "fc", "type": "linear", "out": 3}]},
    "data": {"type": "synthetic", "classes": 3}, "train": {"batch": 4, "epochs": 1}, "plan": {"device": "cpu"}}


def train_run(folder):
    os.makedirs(folder)
    with open(f"{folder}/metrics.jsonl", "w") as out:
        for step in range(1, 1201):
            line = {"step": step, "epoch": 1 + step // 400, "phase": "train", "loss": 2.5 / step, "accuracy": 1 - 0.9 / step,
                    "learning_rate": 0.1, "loss_scale": 65536, "images_per_s": 1000 + step % 7, "time_s": step * 0.25}
            out.write(json.dumps(line) + "\n")
            if step % 400 == 0:
                out.write(json.dumps({"step": step, "epoch": step // 400, "phase": "test", "loss": 0.015625, "accuracy": 0.984375}) + "\n")
    json.dump(JOB, open(f"{folder}/job.json", "w"))
    json.dump({"classes": ["cat", "dog", "<i>owl"], "confusion": [[40, 2, 0], [1, 37, 3], [0, 0, 41]],
               "worst": [{"index": 7, "label": 1, "predicted": 2, "probability": 0.93, "loss": 4.2, "png": png(9)}]},
              open(f"{folder}/evaluation.json", "w"))
    json.dump({"trifold": "0.1.0", "cpu": "</script><b>a CPU", "memory_bytes": 8e9, "gpus": []}, open(f"{folder}/environment.json", "w"))


def plan(name, ranks, speed, compute):
    spans = [{"work": "F", "micro_batch": 0, "begin_ms": 0.0, "end_ms": 4.5}, {"work": "B", "micro_batch": 0, "begin_ms": 6.5, "end_ms": 12.75}]
    return {"plan": name, "images_per_s": speed, "spread": 0.1, "speedup": speed / 640, "efficiency": 0.8,
            "step_ms": {"compute": compute, "exposed_comm": 10.25 * (ranks - 1), "bubble": 5.5 * (ranks - 1), "input": 1.0, "optimizer": 2.0},
            "losses": [2.3 - 0.1 * i + 1e-8 * ranks * i for i in range(10)], "bytes_sent": {}, "sent_to": [[4805632.0 * (i != j) for j in range(ranks)] for i in range(ranks)],
            "peak_bytes": [40e6] * ranks, "planned_bytes": [41e6] * ranks,
            "memory": [{"arena": {"planned": 31e6, "found": 30e6}, "parameters": {"planned": 10e6, "found": 10e6}}] * ranks,
            "timeline": [{"rank": rank, "spans": spans} for rank in range(ranks)] if ranks > 1 else None,
            "pipeline": {"micro_batches": 4, "stage_ms": [50, 60], "bubble_ms": 5.5, "predicted_bubble_ms": 5.0} if ranks > 1 else None,
            "why": "" if ranks > 1 else "3.2 ms a step longer"}


def compare_run(folder):
    os.makedirs(folder)
    json.dump({"job": "made", "batch": 128, "steps": 10, "rounds": 2, "cores": 2, "loss_rounding": 1e-7,
               "plans": [plan("single", 1, 640, 197), plan("pp=2,schedule=1f1b,micro_batches=4", 2, 812.5, 120)],
               "winner": "pp=2,schedule=1f1b,micro_batches=4"}, open(f"{folder}/compare.json", "w"))


def profile_run(folder):
    os.makedirs(folder)
    kernels = [{"name": name, "implementation": "onednn", "layer": layer, "phase": phase, "rank": 0, "calls": 20, "total_ms": ms, "mean_ms": ms / 20,
                "share": ms / 200, "flops": 1e9, "bytes": 1e8, "gflops": gflops, "gbps": 3.5, "intensity": intensity, "roof_percent": 61.5, "bound": "compute"}
               for name, layer, phase, ms, gflops, intensity in (("conv2d", "conv", "forward", 57.125, 101.5, 20.0), ("conv2d", "conv", "input gradient", 31.5, 88.25, 18.0),
                                                                ("relu", "relu", "forward", 3.25, 2.125, 0.125), ("linear", "fc", "weight gradient", 9.75, 44.0, 5.0))]
    json.dump({"machine": {"fp32_gflops": 150.0, "memory_gbps": 20.0, "cache_gbps": 90.0, "launch_us": 1.5}, "wall_ms": 104.5, "steps": 20,
               "kernels": kernels, "advice": ["conv F is near its roof"]}, open(f"{folder}/profile.json", "w"))
