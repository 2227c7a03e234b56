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
    return {"plan": name, "images_per_s": speed, "spread": 0.1, "slowest_images_per_s": 0.9 * speed, "fastest_images_per_s": 1.05 * speed, "speedup": speed / 640, "efficiency": 0.8,
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


MEMORY = {"kinds": ["parameters", "kept activations", "scratch"], "timelines": [{
    "ranks": [0, 1], "bytes": 10_000_000, "evaluation_bytes": 0, "peak_bytes": 9_000_000, "peak_moment": 1, "end_ms": 4.5,
    "nodes": ["conv conv2d.forward F", "conv conv2d.backward_weights W"], "moments": {"node": [0, 1], "micro_batch": [0, 0], "begin_ms": [0, 2.5]},
    "regions": [{"name": "arena", "offset": 0, "bytes": 8_000_000}, {"name": "parameters", "offset": 8_000_000, "bytes": 2_000_000}], "layers": ["conv", ""],
    "owners": [["conv.weight", 0, 0], ["conv.out", 0, 1], ["conv conv2d.backward_weights W", 0, 2]],
    "lives": [[0, 0, 1, 8_000_000, 2_000_000], [1, 0, 1, 0, 4_000_000], [2, 1, 1, 4_000_000, 3_000_000]]}]}


def profile_run(folder):
    os.makedirs(folder)
    kernels = [{"name": name, "implementation": "onednn", "layer": layer, "phase": phase, "rank": 0, "calls": 20, "total_ms": ms, "mean_ms": ms / 20,
                "share": ms / 200, "flops": 1e9, "bytes": 1e8, "gflops": gflops, "gbps": 3.5, "intensity": intensity, "roof_percent": 61.5, "bound": "compute", "occupancy_percent": 50}
               for name, layer, phase, ms, gflops, intensity in (("conv2d", "conv", "forward", 57.125, 101.5, 20.0), ("conv2d", "conv", "input gradient", 31.5, 88.25, 18.0),
                                                                ("relu", "relu", "forward", 3.25, 2.125, 0.125), ("linear", "fc", "weight gradient", 9.75, 44.0, 5.0))]
    json.dump({"machine": {"fp32_gflops": 150.0, "memory_gbps": 20.0, "cache_gbps": 90.0, "launch_us": 1.5}, "wall_ms": 104.5, "steps": 20,
               "kernels": kernels, "advice": ["conv F is near its roof"], "memory": MEMORY}, open(f"{folder}/profile.json", "w"))


def long_run(folder):
    """100,000 steps, as a run of days leaves them."""
    os.makedirs(folder)
    with open(f"{folder}/metrics.jsonl", "w") as out:
        for step in range(1, 100_001):
            out.write(f'{{"step": {step}, "epoch": {1 + step // 1000}, "phase": "train", "loss": {2.5 / step ** 0.3 + 0.1 * (step * 7919 % 101) / 101}, '
                      f'"accuracy": {1 - 0.9 / step ** 0.2}, "learning_rate": {0.1 * (1 - step / 100_000)}, "loss_scale": 65536, "images_per_s": {1000 + step % 97}, "time_s": {step * 0.25}}}\n')
            if step % 1000 == 0:
                out.write(f'{{"step": {step}, "epoch": {step // 1000}, "phase": "test", "loss": {2.6 / step ** 0.3}, "accuracy": {1 - 1 / step ** 0.2}}}\n')
