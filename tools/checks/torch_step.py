"""The parts of a training step of a resolved Trifold job in PyTorch, each from a given state: forward and backward
pass, update, evaluation. States, gradients and results are dicts of double tensors by Trifold's names.

A StepNet computes in double precision, or in float with noise added before each layer, which shows how far a float
implementation of the same network may be off.
"""
import torch

import torch_net


class Noise(torch.autograd.Function):
    """Adds noise to x and, in the backward pass, to its gradient."""

    @staticmethod
    def forward(context, x, add_noise):
        context.add_noise = add_noise
        return add_noise(x)

    @staticmethod
    def backward(context, gradient):
        return context.add_noise(gradient), None


class StepNet(torch_net.TorchNet):
    """A TorchNet that takes batch-norm statistics by groups of samples. With `noise`, each layer reads its inputs and
    parameters with errors of that share of the largest magnitude in their channel; gradients likewise."""

    def __init__(self, job, dtype, noise=0.0):
        super().__init__(job, same_dropout=True)
        self.to(dtype)
        self.dtype = dtype
        self.bn_group = job["train"]["bn_group"]
        self.noise = noise
        self.generator = torch.Generator()
        self.terms = {}  # numbers that are added up for each element, by the names of train_pass; biases only

    def named_tensors(self):
        """Parameters and running statistics."""
        return {f"{key.replace('/', '.')}.{name}": tensor for key, module in self.made.items()
                for name, tensor in list(module.named_parameters()) + list(module.named_buffers())
                if name != "num_batches_tracked"}

    def load(self, state):
        with torch.no_grad():
            for name, tensor in self.named_tensors().items():
                if tensor.shape != state[name].shape:
                    raise ValueError(f"{name} is {list(state[name].shape)}, in PyTorch {list(tensor.shape)}")
                tensor.copy_(state[name])
        self.zero_grad(set_to_none=True)

    def ends_in_log_softmax(self):
        return [layer["type"] for layer in self.layers if layer["type"] not in self.losses][-1] == "log_softmax"

    def noisy(self, x, channel_dim=1):
        if not self.noise:
            return x
        dims = [dim for dim in range(x.dim()) if dim != channel_dim]

        def uniform(shape):
            return 2 * torch.rand(shape, generator=self.generator, dtype=x.dtype) - 1

        def add_noise(x):
            size = self.noise * x.abs().amax(dims, keepdim=True)
            # The error that a channel has in common is that of a sum in float, whose terms may cancel each other. Zeros
            # are exact in every implementation.
            return x + (uniform(x.shape) + uniform(size.shape)) * size * (x != 0)
        return Noise.apply(x, add_noise)

    def run(self, index, layer, inputs, probe=False):
        if probe:
            return super().run(index, layer, inputs, probe)
        inputs = [self.noisy(x) for x in inputs]
        module = self.made[self.key(layer)] if self.key(layer) in self.made else None
        if module is None:
            return super().run(index, layer, inputs)
        parameters = {name: self.noisy(p, channel_dim=0) for name, p in module.named_parameters()}
        if layer["type"] != "batch_norm":
            y = torch.func.functional_call(module, parameters, inputs[0])
            self.terms[f"gradient {layer['id']}.bias"] = y.numel() // y.shape[1]
            return y
        groups = inputs[0].split(self.bn_group) if self.training else inputs
        return torch.cat([self.batch_norm(module, parameters, x) for x in groups])

    def batch_norm(self, module, parameters, x):
        y = torch.func.functional_call(module, parameters, x)  # changes the running statistics
        if not self.noise or not self.training:
            return y
        # The gradient of x is a difference of terms, which round before they cancel: noise goes to each of them. The
        # gradient of the variance with respect to the mean is 0, but only where the mean is exact.
        dims, shape = [0, 2, 3][:x.dim() - 1], [1, -1, 1, 1][:x.dim()]
        mean = self.noisy(x.mean(dims, keepdim=True))
        variance = (self.noisy(x - mean.detach())**2).mean(dims, keepdim=True)
        scale = parameters["weight"].view(shape) / (variance + module.eps).sqrt()
        return self.noisy(x - mean) * scale + parameters["bias"].view(shape)

    def loss(self, output, labels, targets=None, class_weights=None):
        return super().loss(self.noisy(output), labels, targets, class_weights)


class Batch:
    """Samples of a dump."""

    def __init__(self, job, tensors, suffix, class_weights, first_sample=0):
        self.images = tensors[f"images.{suffix}"].view(-1, *job["model"]["input"])
        self.labels = tensors[f"labels.{suffix}"].long()
        self.targets = tensors.get(f"targets.{suffix}")
        self.class_weights = class_weights
        self.first_sample = first_sample

    def run(self, net):
        """Outputs and loss."""
        net.first_sample = self.first_sample
        outputs = net(self.images.to(net.dtype))
        targets = None if self.targets is None else self.targets.to(net.dtype)
        return outputs, net.loss(outputs, self.labels, targets, self.class_weights)


def train_pass(net, state, batch):
    """The loss, the outputs, "gradient NAME" of each parameter, and the running statistics by their names."""
    net.load(state)
    net.train()
    outputs, loss = batch.run(net)
    loss.backward()
    results = {"loss": loss.detach().double(), "outputs": outputs.detach().double()}
    for name, tensor in net.named_tensors().items():
        if tensor.requires_grad:
            results[f"gradient {name}"] = tensor.grad.double()
        else:
            results[name] = tensor.double().clone()
    return results


def evaluation_pass(net, state, batch):
    net.load(state)
    net.eval()
    with torch.no_grad():
        outputs, loss = batch.run(net)
    return {"loss": loss.double(), "outputs": outputs.double()}


# Trifold's names of the optimiser's state, and torch.optim's.
STATE_NAMES = {"momentum": "momentum_buffer", "moment1": "exp_avg", "moment2": "exp_avg_sq", "accumulator": "sum"}


def update(net, job, state, gradients, rate, clip_norm, updates):
    """The parameters and the optimiser's state after update number `updates`, which counts from 1."""
    net.load(state)
    parameters = {name: net.named_tensors()[name] for name in gradients}
    for name, parameter in parameters.items():
        parameter.grad = gradients[name].clone()
    if clip_norm > 0:
        torch.nn.utils.clip_grad_norm_(parameters.values(), clip_norm)
    optimizer = torch_net.make_optimizer(net, job)
    for group in optimizer.param_groups:
        group["lr"] = rate
    # Adagrad's accumulator starts at 0 in Trifold, which adds the initial value where it reads it.
    offset = job["train"]["optimizer"].get("initial_accumulator", 0.0)
    held = [(f"optimizer.{name}.{ours}", parameter, theirs) for name, parameter in parameters.items()
            for ours, theirs in STATE_NAMES.items() if f"optimizer.{name}.{ours}" in state]
    for ours, parameter, theirs in held:
        optimizer.state[parameter].update({theirs: state[ours] + offset, "step": torch.tensor(updates - 1.0)})
    optimizer.step()
    return ({name: parameter.detach().clone() for name, parameter in parameters.items()}
            | {ours: optimizer.state[parameter][theirs] - offset for ours, parameter, theirs in held})
