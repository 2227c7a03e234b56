"""A resolved Trifold job as a PyTorch module: what tools/checks/compare_torch.py, tools/bench and tools/checks/networks_torch
compare Trifold with."""
import json
import subprocess

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

PURPOSE_DROPOUT = 4  # Purpose::dropout in src/core/philox.h


def philox(key, counter):
    """Philox4x32-10 over arrays: counter is four uint32 arrays; returns four."""
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    c = [np.asarray(x, dtype=np.uint64) for x in counter]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c


def keep_factors(seed, layer, samples, count, p):
    """[len(samples), count] of 0 or 1/(1-p), in double: the numbers that Trifold's dropout draws for these samples."""
    blocks = (count + 3) // 4
    block, sample = np.meshgrid(np.arange(blocks), samples)
    words = philox(seed ^ (PURPOSE_DROPOUT << 56),
                   [block, np.full_like(block, layer), sample & 0xFFFFFFFF, sample >> 32])
    uniform = (np.stack(words, axis=-1).reshape(len(samples), -1)[:, :count] >> np.uint64(8)).astype(np.float32) * 2.0**-24
    return torch.from_numpy(np.where(uniform >= np.float32(p), 1 / (1 - p), 0.0))


def resolve(program, job, settings=()):
    command = [program, "resolve", job]
    for setting in settings:
        command += ["--set", setting]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def as_pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


class LayerNorm(nn.LayerNorm):
    """Over the channels of each pixel, which PyTorch wants last."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class TorchNet(nn.Module):
    """The layers of a resolved job. `same_dropout`: draw the masks that Trifold draws (slow, for comparison)."""

    def __init__(self, job, same_dropout=False):
        super().__init__()
        self.layers = job["model"]["layers"]
        self.seed = job["train"]["seed"]
        self.same_dropout = same_dropout
        self.first_sample = 0
        self.made = nn.ModuleDict()
        self.losses = {"softmax_cross_entropy", "mse"}
        with torch.no_grad():
            shapes = {"input": torch.zeros(2, *job["model"]["input"])}
            for index, layer in enumerate(self.layers):
                inputs = [shapes[name] for name in self.inputs(layer)]
                module = self.make(layer, inputs[0])
                if module is not None:
                    self.made[self.key(layer)] = module
                if layer["type"] not in self.losses:
                    shapes[layer["id"]] = self.run(index, layer, inputs, probe=True)

    @staticmethod
    def key(layer):
        return layer["id"].replace(".", "/")

    @staticmethod
    def inputs(layer):
        return layer["in"] if isinstance(layer["in"], list) else [layer["in"]]

    @staticmethod
    def make(layer, x):
        kind = layer["type"]
        if kind == "conv2d":
            kernel = as_pair(layer["kernel"])
            pad = "same" if layer["padding"] == "same" else as_pair(layer["pad"])
            return nn.Conv2d(x.shape[1], layer["out"], kernel, as_pair(layer["stride"]), pad, as_pair(layer["dilation"]),
                             layer["groups"] or x.shape[1], layer["bias"])
        if kind == "linear":
            return nn.Linear(x.shape[1], layer["out"], layer["bias"])
        if kind == "batch_norm":
            norm = nn.BatchNorm2d if x.dim() == 4 else nn.BatchNorm1d
            return norm(x.shape[1], eps=layer["eps"], momentum=layer["momentum"])
        if kind == "layer_norm":
            return LayerNorm(x.shape[1], eps=layer["eps"])
        return None

    def run(self, index, layer, inputs, probe=False):
        kind, x = layer["type"], inputs[0]
        if self.key(layer) in self.made:
            return self.made[self.key(layer)](x)
        if kind in ("relu", "relu6", "gelu", "silu", "hardswish", "hardsigmoid"):
            return getattr(F, kind)(x)
        if kind in ("sigmoid", "tanh"):
            return getattr(torch, kind)(x)
        if kind == "leaky_relu":
            return F.leaky_relu(x, layer["slope"])
        if kind in ("max_pool", "avg_pool"):
            kernel = as_pair(layer["kernel"])
            stride = as_pair(layer["stride"]) if "stride" in layer else kernel
            if kind == "max_pool":
                return F.max_pool2d(x, kernel, stride, as_pair(layer["pad"]))
            return F.avg_pool2d(x, kernel, stride, as_pair(layer["pad"]), count_include_pad=layer["count_pad"])
        if kind == "global_avg_pool":
            return x.mean(dim=(2, 3))
        if kind in ("dropout", "dropout2d"):
            if probe or not self.training:
                return x
            if not self.same_dropout:
                return (F.dropout if kind == "dropout" else F.dropout2d)(x, layer["p"])
            samples = np.arange(self.first_sample, self.first_sample + x.shape[0])
            if kind == "dropout2d":
                factors = keep_factors(self.seed, index, samples, x.shape[1], layer["p"]).to(x.dtype)
                return x * factors[:, :, None, None]
            # Element e of a sample is numbered pixel * C + channel.
            pixels = x[0, 0].numel() if x.dim() == 4 else 1
            factors = keep_factors(self.seed, index, samples, pixels * x.shape[1], layer["p"]).to(x.dtype)
            return x * factors.view(x.shape[0], pixels, x.shape[1]).transpose(1, 2).reshape(x.shape)
        if kind == "flatten":
            return torch.flatten(x, 1)
        if kind == "add":
            return sum(inputs[1:], x)
        if kind == "concat":
            return torch.cat(inputs, 1)
        if kind == "log_softmax":
            return F.log_softmax(x, 1)
        raise ValueError(f"no PyTorch equivalent of layer type '{kind}'")

    def forward(self, x):
        values = {"input": x}
        last = x
        for index, layer in enumerate(self.layers):
            if layer["type"] in self.losses:
                break
            last = values[layer["id"]] = self.run(index, layer, [values[name] for name in self.inputs(layer)])
        return last

    def loss(self, output, labels, targets=None, class_weights=None):
        """`class_weights`: of data.class_weights; those of the loss layer override them."""
        last = self.layers[-1]
        if last["type"] == "mse":
            return F.mse_loss(output, targets)
        weights = last.get("class_weights", class_weights)
        weights = None if weights is None else torch.tensor(weights, dtype=output.dtype)
        if last["type"] == "log_softmax":
            return F.nll_loss(output, labels, weights)
        return F.cross_entropy(output, labels, weights, label_smoothing=last.get("label_smoothing", 0.0))

    def load_trifold(self, tensors):
        """Parameters by Trifold's names: "conv1.weight", "stage1.0.bn1.running_mean"."""
        state = {}
        for name, module in self.made.items():
            for key in module.state_dict():
                if key != "num_batches_tracked":
                    state[f"made.{name}.{key}"] = tensors[f"{name.replace('/', '.')}.{key}"]
        missing, unexpected = self.load_state_dict(state, strict=False)
        assert not unexpected and all("num_batches_tracked" in name for name in missing), (missing, unexpected)


class ChannelsLast(torch.autograd.Function):
    """A tensor that arrived from another stage, as convolutions like it; its gradient leaves as messages must be."""

    @staticmethod
    def forward(_, x):
        return x.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(_, gradient):
        return gradient.contiguous()


class TorchStage(nn.Module):
    """A run of a net's layers; what crosses its ends are tensors in the order of the layers that made them."""

    def __init__(self, net, begin, end):
        super().__init__()
        self.net = [net]  # in a list: its other layers are no part of this module
        self.begin, self.end = begin, end
        mine = [layer for layer in net.layers[begin:end] if layer["type"] not in net.losses]
        self.made = nn.ModuleDict({net.key(layer): net.made[net.key(layer)] for layer in mine
                                   if net.key(layer) in net.made})
        self.arriving = self.crossing(begin)
        self.leaving = self.crossing(end)

    def crossing(self, cut):
        net = self.net[0]
        read = {name for layer in net.layers[cut:] for name in net.inputs(layer)}
        made = ["input"] + [layer["id"] for layer in net.layers[:cut]]
        return [name for name in made if name in read]

    def forward(self, *arriving):
        net = self.net[0]
        values = {name: ChannelsLast.apply(x) if self.begin > 0 and x.dim() == 4 else x
                  for name, x in zip(self.arriving, arriving)}
        last = None
        for index in range(self.begin, self.end):
            layer = net.layers[index]
            if layer["type"] in net.losses:
                break
            last = values[layer["id"]] = net.run(index, layer, [values[name] for name in net.inputs(layer)])
        if self.end >= len(net.layers):
            return last
        leaving = tuple(values[name].contiguous() for name in self.leaving)
        return leaving if len(leaving) > 1 else leaving[0]


class Lars(torch.optim.Optimizer):
    """You, Gitman and Ginsburg 2017, algorithm 1: v = m v + lr local (g + decay w), w = w - v, with the local rate
    trust |w| / (|g| + decay |w|). It is 1 for parameters that are exempt from weight decay."""

    def __init__(self, groups, lr, momentum, nesterov, trust):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "trust": trust})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay, momentum = group["weight_decay"], group["momentum"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                rate, w_norm, g_norm = group["lr"], w.norm(), w.grad.norm()
                if not group["exempt"] and w_norm > 0 and g_norm > 0:
                    rate = rate * group["trust"] * w_norm / (g_norm + decay * w_norm)
                change = rate * (w.grad + decay * w)
                velocity = self.state[w].setdefault("momentum_buffer", torch.zeros_like(w)).mul_(momentum).add_(change)
                w -= change + momentum * velocity if group["nesterov"] else velocity


def decay_groups(net, weight_decay, decay_bias):
    """Trifold exempts biases and normalisation layers from weight decay unless decay_bias is set."""
    plain, exempt = [], []
    for module in net.made.values():
        for name, parameter in module.named_parameters():
            is_weight = name == "weight" and not isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, LayerNorm))
            (plain if is_weight or decay_bias else exempt).append(parameter)
    return [{"params": plain, "weight_decay": weight_decay, "exempt": False},
            {"params": exempt, "weight_decay": 0.0, "exempt": True}]


def make_optimizer(net, job):
    options = job["train"]["optimizer"]
    kind, lr = options["type"], options["lr"]
    groups = decay_groups(net, options["weight_decay"], options["decay_bias"])
    if kind == "sgd":
        return torch.optim.SGD(groups, lr, momentum=options["momentum"], nesterov=options["nesterov"])
    if kind == "lars":
        return Lars(groups, lr, options["momentum"], options["nesterov"], options["trust"])
    if kind == "adagrad":
        return torch.optim.Adagrad(groups, lr, eps=options["eps"],
                                   initial_accumulator_value=options["initial_accumulator"])
    adam = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return adam(groups, lr, betas=(options["beta1"], options["beta2"]), eps=options["eps"])
