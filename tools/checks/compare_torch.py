#!/usr/bin/env python3
"""Trains the same networks from the same weights on the same batch in Trifold and in PyTorch and compares the losses.

    pip install torch safetensors numpy
    tools/build && tools/checks/compare_torch.py                       # the tutorial net, ResNet-20, MobileNet
    tools/checks/compare_torch.py models/vgg11.json --batch 4 --steps 3

Exit code 0: every loss agrees within --tolerance (relative). 1: one does not. 77: torch or safetensors is not installed.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("TRIFOLD_BUILD", "build/release")

try:
    import torch
    from safetensors.torch import load_file
    import torch_net
except ImportError as error:
    print(f"compare_torch: skipped, {error.name} is not installed (pip install torch safetensors numpy)")
    sys.exit(77)

# Batch and rate of each. Training amplifies rounding errors: at higher rates PyTorch's float losses leave its own double
# ones by more than the tolerance within ten steps (--double shows by how much they do).
DEFAULT_JOBS = [("tutorial", 32, 0.01), ("resnet20", 32, 0.01), ("mobilenet_v1", 32, 0.0005)]


def trifold_losses(job, settings, steps, dump):
    command = [BUILD / "step_bench", job, "--steps", str(steps), "--dump", dump]
    for setting in settings:
        command += ["--set", setting]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(line) for line in out.split()]


def torch_losses(resolved, tensors, steps, dtype=torch.float32):
    net = torch_net.TorchNet(resolved, same_dropout=True)
    net.load_trifold(tensors)
    net = net.to(dtype)
    optimizer = torch_net.make_optimizer(net, resolved)
    images, labels = tensors["images"].to(dtype), tensors["labels"].long()
    losses = []
    for step in range(steps):
        net.first_sample = step * len(labels)
        optimizer.zero_grad()
        loss = net.loss(net(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_difference(losses, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--double", action="store_true", help="also train in double precision, as a yardstick (slow)")
    args = parser.parse_args()
    cases = [(job, args.batch or 16, args.lr or 0.01) for job in args.jobs] or \
        [(str(ROOT / f"models/{name}.json"), args.batch or batch, args.lr or lr) for name, batch, lr in DEFAULT_JOBS]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for job, batch, lr in cases:
            settings = [f"train.batch={batch}", f"train.bn_group={batch}",
                        f'train.optimizer={{"type":"sgd","lr":{lr},"momentum":0.9,"weight_decay":0.0001}}']
            dump = f"{folder}/first.safetensors"
            ours = trifold_losses(job, settings, args.steps, dump)
            resolved, first = torch_net.resolve(BUILD / "trifold", job, settings), load_file(dump)
            theirs = torch_losses(resolved, first, args.steps)
            worst = largest_difference(ours, theirs)
            yardstick = ""
            if args.double:
                exact = torch_losses(resolved, first, args.steps, torch.float64)
                yardstick = (f"  (to PyTorch in double: Trifold {largest_difference(ours, exact):.2e}, "
                             f"PyTorch {largest_difference(theirs, exact):.2e})")
            verdict = "ok" if worst <= args.tolerance else "DIFFERENT"
            failed = failed or worst > args.tolerance
            print(f"{pathlib.Path(job).stem:<16} batch {batch:<4} {args.steps} steps: loss {ours[0]:.4f} -> {ours[-1]:.4f}, "
                  f"largest relative difference {worst:.2e}  {verdict}{yardstick}")
            if worst > args.tolerance:
                for step, (a, b) in enumerate(zip(ours, theirs)):
                    print(f"  step {step + 1:<3} trifold {a:.7f}  torch {b:.7f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
