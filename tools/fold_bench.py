"""What tools/bench --folds measures: plans of two CPU ranks against one rank with two threads, and against PyTorch's
DistributedDataParallel (gloo, two processes of one thread), in turns. Each figure is the best of the rounds."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRIFOLD = ROOT / "build/release/trifold"
MICRO_BATCHES = 8
PLANS = f"single; dp=2; pp=2,micro_batches={MICRO_BATCHES}"


def ddp_worker(job, settings, batch):
    """One of two replicas; told how many steps to do, it prints the seconds of each."""
    import torch
    import torch.distributed
    import torch_net
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo")
    resolved = torch_net.resolve(TRIFOLD, job, settings)
    net = torch_net.TorchNet(resolved).to(memory_format=torch.channels_last)
    images = torch.randn(batch // 2, *resolved["model"]["input"]).to(memory_format=torch.channels_last)
    labels = torch.randint(0, resolved["model"]["classes"], (batch // 2,))
    optimizer = torch_net.make_optimizer(net, resolved)
    replica = torch.nn.parallel.DistributedDataParallel(net)

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        net.loss(replica(images), labels).backward()
        optimizer.step()
        return time.perf_counter() - begin

    step(), step()
    print("ready", flush=True)
    for line in sys.stdin:
        print(" ".join(f"{step():.6f}" for _ in range(int(line))), flush=True)


class Ddp:
    def __init__(self, job, settings, batch):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.ranks = []
        for rank in range(2):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port), OMP_NUM_THREADS="1")
            self.ranks.append(subprocess.Popen(
                [sys.executable, __file__, job, str(batch), *settings], env=environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        for rank in self.ranks:
            if rank.stdout.readline().strip() != "ready":
                raise RuntimeError("PyTorch's DistributedDataParallel did not start")

    def steps(self, count):
        for rank in self.ranks:
            rank.stdin.write(f"{count}\n")
            rank.stdin.flush()
        return min(float(word) for word in [rank.stdout.readline() for rank in self.ranks][0].split())

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def compare(job, settings, steps, folder):
    flags = [part for setting in settings for part in ("--set", setting)]
    command = [TRIFOLD, "compare", job, "--plans", PLANS, "--steps", str(steps), "--rounds", "1", "--json",
               "--runs", folder, *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["plans"]


def bench(name, batch, steps, rounds, with_torch):
    job = str(ROOT / f"models/{name}.json")
    settings = [f"train.batch={batch}", f"train.bn_group={batch // MICRO_BATCHES}",
                'train.optimizer={"type":"sgd","lr":0.01,"momentum":0.9}']
    ddp = Ddp(job, settings, batch) if with_torch else None
    best, peer = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for plan in compare(job, settings, steps, folder):
                key = plan["plan"].split(",")[0]
                if key not in best or plan["images_per_s"] > best[key]["images_per_s"]:
                    best[key] = plan
            if ddp:
                peer = max(peer, batch / ddp.steps(steps))
    if ddp:
        ddp.close()
    speed = {key: plan["images_per_s"] for key, plan in best.items()}
    step = best["dp=2"]["step_ms"]
    row = {"net": name, "batch": batch, "single": speed["single"], "dp2": speed["dp=2"], "pp2": speed["pp=2"],
           "dp2_to_single": speed["dp=2"] / speed["single"],
           "dp2_exposed_comm": step["exposed_comm"] / sum(step.values())}
    if peer:
        row.update({"torch_ddp": peer, "dp2_to_torch_ddp": speed["dp=2"] / peer})
    return row


def print_row(row):
    text = (f"{row['net']:<10} batch {row['batch']:<4} images/s: single {row['single']:.0f} | dp=2 {row['dp2']:.0f}, "
            f"{row['dp2_to_single']:.2f} x single, {100 * row['dp2_exposed_comm']:.1f} % of it communication | "
            f"pp=2 {row['pp2']:.0f}")
    if "torch_ddp" in row:
        text += f" | PyTorch DDP {row['torch_ddp']:.0f}, dp=2 is {row['dp2_to_torch_ddp']:.2f} x"
    print(text, flush=True)


if __name__ == "__main__":
    ddp_worker(sys.argv[1], sys.argv[3:], int(sys.argv[2]))
