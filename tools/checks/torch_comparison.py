"""Compares what tools/checks/step_dump wrote of a job with the same steps in PyTorch, in double precision. Each step
starts from Trifold's state before it, so errors do not build up.

The bounds come from the network, not from a tolerance:
- Loss, outputs, gradients, running statistics: the pass is repeated in float with random noise before each layer
  (torch_step.StepNet). A sum of many equal numbers, as a bias's gradient can be, rounds the same way at every term, which
  noise would hide: it may be off by SUM_ERROR per term. Trifold's largest error in a tensor may be MARGIN times that of the noisy runs. A tensor that
  exceeds this bound after one run gets up to MOST_RUNS of them: noise takes a relu or max_pool that reads nearly equal
  values to either side, as float errors may have done in Trifold.
- Parameters and optimiser state: torch.optim updates Trifold's own state by Trifold's own gradients. The bound of each
  element is what relative changes of MARGIN float epsilons in the gradients, the state and the rates make of it, plus
  the rounding of the result.
"""
import collections
import json
import math

import torch
from safetensors import safe_open

import torch_step

EPSILON = 2.0**-23
NOISE = {"fp32": 2.0**-21, "fp16": 2.0**-10, "bf16": 2.0**-7}  # fp32: errors of Winograd's method
MARGIN = 4
MOST_RUNS = 32
SUM_ERROR = EPSILON / 8

Difference = collections.namedtuple("Difference", "where what error allowed scale")


class Skip(Exception):
    """Why a job cannot be compared."""


def why_skipped(job):
    plan = job["plan"]
    if plan["sync"]["type"] != "allreduce" or plan["sync"]["wire"] != "fp32":
        return f"sync {plan['sync']['type']} {plan['sync'].get('wire', '')}".strip()
    return "pipedream" if plan["schedule"] == "pipedream" and plan["pp"] > 1 else None


def noise_of(job):
    """That of the least precise layer."""
    return max(NOISE[part.get("precision", "fp32")] for part in [job["train"], *job["model"]["layers"]])


class NoisyRuns:
    """The largest error of float runs with noise, by tensor."""

    def __init__(self, net, exact, run):
        self.net, self.exact, self.run = net, exact, run
        self.runs = 0
        self.largest = collections.defaultdict(float)
        self.run_again()

    def run_again(self):
        self.net.generator.manual_seed(self.runs)
        self.runs += 1
        for name, tensor in self.run(self.net).items():
            error = (tensor - self.exact[name]).abs().max().item()
            self.largest[name] = max(self.largest[name], error if math.isfinite(error) else 0.0)

    def allowed(self, name):
        rounding = MARGIN * EPSILON + SUM_ERROR * self.net.terms.get(name, 0)
        return MARGIN * self.largest[name] + rounding * self.exact[name].abs().max().item()

    def explain(self, name, error):
        """Whether noise makes such an error."""
        while not error <= self.allowed(name) and self.runs < MOST_RUNS:
            self.run_again()
        return error <= self.allowed(name)


class Comparison:
    """One job. run() fills `differences`."""

    def __init__(self, file):
        with safe_open(file, "pt") as dump:
            self.metadata = dump.metadata()
            self.tensors = {name: dump.get_tensor(name) for name in dump.keys()}
        self.job = json.loads(self.metadata["job"])
        reason = why_skipped(self.job)
        if reason:
            raise Skip(reason)
        if self.numbers("skipped_updates") != [0]:
            raise Skip("a gradient overflowed in fp16")
        self.exact_net = torch_step.StepNet(self.job, torch.float64)
        self.noisy_net = torch_step.StepNet(self.job, torch.float32, noise_of(self.job))
        self.class_weights = self.numbers("class_weights") or None
        self.steps = len(self.numbers("loss"))
        self.differences = []

    def numbers(self, key):
        return [float(text) for text in self.metadata[key].split()]

    def under(self, prefix):
        start = len(prefix) + 1
        return {name[start:]: tensor.double() for name, tensor in self.tensors.items() if name.startswith(prefix + "/")}

    def gradients(self, step):
        scale = self.numbers("loss_scale")[step - 1]
        return {f"gradient {name}": tensor / scale for name, tensor in self.under(f"gradient.{step}").items()}

    def run(self):
        for step in range(1, self.steps + 1):
            self.compare_passes(step)
            self.compare_update(step)
        self.compare_evaluation()

    def compare_passes(self, step):
        first_sample = int(self.numbers("first_sample")[step - 1])
        batch = torch_step.Batch(self.job, self.tensors, step, self.class_weights, first_sample)
        ours = self.under(f"state.{step}") | self.gradients(step)
        self.compare(f"step {step}", torch_step.train_pass, self.under(f"state.{step - 1}"), batch, ours,
                     self.numbers("loss")[step - 1], self.numbers("correct")[step - 1])

    def compare_evaluation(self):
        batch = torch_step.Batch(self.job, self.tensors, "test", self.class_weights)
        loss, accuracy = self.numbers("evaluation")
        outputs = self.tensors["outputs.test"].double()
        if self.exact_net.ends_in_log_softmax():  # Trifold joins it with the loss, which then reads the layer before
            outputs = outputs.log_softmax(1)
        self.compare("evaluation", torch_step.evaluation_pass, self.under(f"state.{self.steps}"), batch,
                     {"outputs": outputs}, loss, accuracy * len(batch.labels))

    def compare(self, where, run, state, batch, ours, loss, correct):
        exact = run(self.exact_net, state, batch)
        if not torch.isfinite(exact["loss"]):
            raise Skip("PyTorch's loss is not finite")
        noisy = NoisyRuns(self.noisy_net, exact, lambda net: run(net, state, batch))
        ours = {"outputs": exact["outputs"]} | ours | {"loss": torch.tensor(loss, dtype=torch.float64)}
        for name, expected in exact.items():
            if ours[name].shape != expected.shape:
                raise ValueError(f"{name} is {list(ours[name].shape)}, in PyTorch {list(expected.shape)}")
            error = (ours[name] - expected).abs().max().item()
            if not noisy.explain(name, error):
                self.add(where, name, error, noisy.allowed(name), expected.abs().max().item())
        if batch.targets is None:
            best, second = exact["outputs"].topk(2, dim=1).values.unbind(1)
            unsure = (best - second <= 2 * noisy.allowed("outputs")).sum().item()
            expected = (exact["outputs"].argmax(1) == batch.labels).sum().item()
            if not abs(correct - expected) <= unsure + 1e-6:
                self.add(where, "correct samples", abs(correct - expected), unsure, expected)

    def compare_update(self, step):
        train = self.job["train"]
        given = self.under(f"state.{step - 1}") | self.gradients(step)
        given |= {"learning rate": self.numbers("learning_rate")[step - 1], "clip norm": train["clip_norm"]}
        gradients = [name for name in given if name.startswith("gradient ")]

        def kind(name):
            return name.split()[0] if " " in name else name.split(".")[-1] if name.startswith("optimizer.") else "state"

        def changes(values):
            """What the update makes of each tensor: of a parameter the difference, of the optimiser's state all."""
            after = torch_step.update(self.exact_net, self.job, values,
                                      {name.split()[1]: values[name] for name in gradients},
                                      values["learning rate"], values["clip norm"], step)
            return {name: tensor if name.startswith("optimizer.") else tensor - values[name]
                    for name, tensor in after.items()}

        exact = changes(given)
        more = 2.0**-20
        moved = collections.defaultdict(float)
        for changed in {kind(name) for name in given}:
            other = changes({name: value * (1 + more) if kind(name) == changed else value
                             for name, value in given.items()})
            for name in exact:
                moved[name] = moved[name] + (other[name] - exact[name]).abs() / more
        tiny = 1e-37 + 1e-15 * train["optimizer"].get("initial_accumulator", 0.0)  # added in double, subtracted again
        for name, after in self.under(f"state.{step}").items():
            if name not in exact:
                continue  # a running statistic
            expected = exact[name] if name.startswith("optimizer.") else given[name] + exact[name]
            allowed = EPSILON * (MARGIN * moved[name] + expected.abs()) + tiny
            if expected is not exact[name]:
                allowed += EPSILON * given[name].abs()
            error = (after - expected).abs()
            worst = (error / allowed).nan_to_num(math.inf).argmax()
            if not (error / allowed).flatten()[worst] <= 1:
                self.add(f"step {step}", f"update of {name}",
                         *(x.flatten()[worst].item() for x in (error, allowed, expected.abs())))

    def add(self, *difference):
        self.differences.append(Difference(*difference))

    def describe(self):
        """One line: the worst difference, and where there are others."""
        worst = max(self.differences, key=lambda d: d.error / d.allowed if d.allowed > 0 else math.inf)
        text = (f"{worst.where}, {worst.what}: off by {worst.error:.2e}, allowed {worst.allowed:.2e}, "
                f"largest value {worst.scale:.2e}")
        others = list(dict.fromkeys(d.what for d in self.differences if d.what != worst.what))
        if others:
            text += f"; also {', '.join(others[:4])}" + (f" and {len(others) - 4} more" if len(others) > 4 else "")
        return text
