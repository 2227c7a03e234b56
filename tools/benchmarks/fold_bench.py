"""What tools/bench --folds measures: plans of two CPU ranks against one rank with two threads, and against PyTorch's
DistributedDataParallel and torch.distributed.pipelining (gloo, two processes of one thread, the pipeline cut at the same
layers), in turns; and sums between two ranks against Open MPI's. Each figure is the best of the rounds."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRIFOLD = ROOT / os.environ.get("TRIFOLD_BUILD", "build/release") / "trifold"
MICRO_BATCHES = 8
PIPELINE = f"pp=2,schedule=1f1b,micro_batches={MICRO_BATCHES}"


def serve(step):
    """Told how many steps to do, prints the seconds of each."""
    step(), step()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        print(" ".join(f"{each:.6f}" for each in seconds), flush=True)


def torch_worker(kind, job, batch, first_stage_layers, settings):
    """One of PyTorch's two processes."""
    import torch
    import torch.distributed
    import torch_net
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo")
    resolved = torch_net.resolve(TRIFOLD, job, settings)
    net = torch_net.TorchNet(resolved).to(memory_format=torch.channels_last)
    samples = batch // 2 if kind == "ddp" else batch
    images = torch.randn(samples, *resolved["model"]["input"]).to(memory_format=torch.channels_last)
    labels = torch.randint(0, resolved["model"]["classes"], (samples,))
    if kind == "ddp":
        serve(ddp_step(net, resolved, images, labels))
    else:
        serve(pipeline_step(net, resolved, images, labels, first_stage_layers))


def ddp_step(net, resolved, images, labels):
    import torch
    import torch_net
    optimizer = torch_net.make_optimizer(net, resolved)
    replica = torch.nn.parallel.DistributedDataParallel(net)

    def step():
        optimizer.zero_grad(set_to_none=True)
        net.loss(replica(images), labels).backward()
        optimizer.step()

    return step


def pipeline_step(net, resolved, images, labels, first_stage_layers):
    import torch
    import torch.distributed
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    import torch_net
    rank = torch.distributed.get_rank()
    cut = torch_net.TorchStage(net, 0, first_stage_layers) if rank == 0 else torch_net.TorchStage(
        net, first_stage_layers, len(net.layers))
    optimizer = torch_net.make_optimizer(cut, resolved)
    stage = PipelineStage(cut, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=net.loss)

    def step():
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(images)
        else:
            schedule.step(target=labels, losses=[])
        optimizer.step()

    return step


class Torch:
    def __init__(self, kind, job, batch, first_stage_layers, settings):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.ranks = []
        for rank in range(2):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port), OMP_NUM_THREADS="1")
            self.ranks.append(subprocess.Popen(
                [sys.executable, __file__, kind, job, str(batch), str(first_stage_layers), *settings], env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        for rank in self.ranks:
            if rank.stdout.readline().strip() != "ready":
                raise RuntimeError(f"PyTorch's {kind} did not start")

    def steps(self, count):
        for rank in self.ranks:
            rank.stdin.write(f"{count}\n")
            rank.stdin.flush()
        # A step is over when the slower process is.
        seconds = [[float(word) for word in rank.stdout.readline().split()] for rank in self.ranks]
        return min(max(pair) for pair in zip(*seconds))

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def first_stage(job, settings):
    """The layers of the first stage, by what they cost here."""
    flags = [part for setting in settings for part in ("--set", setting)]
    command = [TRIFOLD, "check", job, "--plan", f"{PIPELINE},stages=measured", "--json", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["stages"]


def compare(job, settings, steps, folder, stages):
    plans = f"single; dp=2; {PIPELINE},stages=[{','.join(map(str, stages))}]"
    flags = [part for setting in settings for part in ("--set", setting)]
    command = [TRIFOLD, "compare", job, "--plans", plans, "--steps", str(steps), "--rounds", "1", "--json",
               "--runs", folder, *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["plans"]


def ideal_ms(pipeline):
    """Of a step, had it nothing but its slowest stage's work and the bubble of the schedule's formula, (p - 1) / m."""
    stages = pipeline["stage_ms"]
    return max(stages) * (1 + (len(stages) - 1) / pipeline["micro_batches"])


def bench(name, batch, steps, rounds, with_torch):
    job = str(ROOT / f"models/{name}.json")
    settings = [f"train.batch={batch}", f"train.bn_group={batch // MICRO_BATCHES}",
                'train.optimizer={"type":"sgd","lr":0.01,"momentum":0.9}']
    stages = first_stage(job, settings)
    peers = {kind: Torch(kind, job, batch, stages[0], settings) for kind in ("ddp", "pipelining") if with_torch}
    best, peer_speed, to_ideal = {}, {}, float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for plan in compare(job, settings, steps, folder, stages):
                key = plan["plan"].split(",")[0]
                if key not in best or plan["images_per_s"] > best[key]["images_per_s"]:
                    best[key] = plan
                if "pipeline" in plan:  # measured and ideal of the same steps
                    to_ideal = min(to_ideal, sum(plan["step_ms"].values()) / ideal_ms(plan["pipeline"]))
            for kind, peer in peers.items():
                peer_speed[kind] = max(peer_speed.get(kind, 0), batch / peer.steps(steps))
    for peer in peers.values():
        peer.close()
    speed = {key: plan["images_per_s"] for key, plan in best.items()}
    step = best["dp=2"]["step_ms"]
    row = {"net": name, "batch": batch, "single": speed["single"], "dp2": speed["dp=2"], "pp2": speed["pp=2"],
           "dp2_to_single": speed["dp=2"] / speed["single"],
           "dp2_exposed_comm": step["exposed_comm"] / sum(step.values()),
           "pp2_stages": stages, "pp2_stage_ms": best["pp=2"]["pipeline"]["stage_ms"], "pp2_to_ideal": to_ideal}
    if peers:
        row.update({"torch_ddp": peer_speed["ddp"], "dp2_to_torch_ddp": speed["dp=2"] / peer_speed["ddp"],
                    "torch_pipelining": peer_speed["pipelining"],
                    "pp2_to_torch_pipelining": speed["pp=2"] / peer_speed["pipelining"]})
    return row


def all_reduces():
    """Rows of bytes, GB/s by threads of ours and by Open MPI at its best; none where there is no mpirun."""
    if not shutil.which("mpirun"):
        return []
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    text = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", TRIFOLD.parent / "allreduce_bench"],
                          check=True, capture_output=True, text=True, env=environment).stdout
    rows = []
    for line in text.splitlines():
        speed = {name: float(value) for name, value in re.findall(r"(\w+) ([0-9.]+) GB/s", line)}
        mpi = max(speed["MPI_Allreduce"], speed["MPI_Iallreduce"])
        rows.append({"mebibytes": int(line.split()[0]), "threads": speed["threads"], "open_mpi": mpi,
                     "ratio": speed["threads"] / mpi})
    return rows


def print_all_reduce(row):
    print(f"all-reduce of {row['mebibytes']:>2} MiB between two ranks: {row['threads']:.1f} GB/s, {row['ratio']:.1f} x "
          f"Open MPI's {row['open_mpi']:.1f}", flush=True)


def print_row(row):
    print(f"{row['net']:<10} batch {row['batch']:<4} images/s: single {row['single']:.0f} | dp=2 {row['dp2']:.0f}, "
          f"{row['dp2_to_single']:.2f} x single, {100 * row['dp2_exposed_comm']:.1f} % of it communication | "
          f"pp=2 {row['pp2']:.0f}, its step {row['pp2_to_ideal']:.2f} x the ideal of its stages "
          f"({', '.join(f'{each:.0f} ms' for each in row['pp2_stage_ms'])})")
    if "torch_ddp" in row:
        print(f"{'':<10} PyTorch: DDP {row['torch_ddp']:.0f}, dp=2 is {row['dp2_to_torch_ddp']:.2f} x | pipelining "
              f"{row['torch_pipelining']:.0f}, pp=2 is {row['pp2_to_torch_pipelining']:.2f} x")
    sys.stdout.flush()


if __name__ == "__main__":
    torch_worker(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
