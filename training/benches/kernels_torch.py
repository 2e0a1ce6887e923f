#!/usr/bin/env python3
"""PyTorch's kernels on the CPU, at the sizes of kernels.rs: what the bench compares with.

Prints one line of JSON: for each kernel whose name has FILTER in it the seconds of CALLS calls, forward and backward.

usage: kernels_torch.py FILTER CALLS THREADS LAYERS HIDDEN HEADS SEQ BATCH VOCABULARY
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

filter_ = sys.argv[1]
calls, threads, layers, hidden, heads, seq, batch, vocabulary = map(int, sys.argv[2:])
torch.set_num_threads(threads)
rows, wide, chunk = batch * seq, 4 * hidden, 512
padded = -(-vocabulary // 128) * 128


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def differentiable(make, operation):
    """Times of operation(*make()) and of its backward pass, from a gradient of ones."""
    times = {"forward": [], "backward": []}
    for _ in range(calls + 1):
        inputs = make()
        start = time.perf_counter()
        output = operation(*inputs)
        end = time.perf_counter()
        times["forward"].append(end - start)
        gradient = torch.ones_like(output)
        start = time.perf_counter()
        output.backward(gradient)
        times["backward"].append(time.perf_counter() - start)
    return {part: seconds[1:] for part, seconds in times.items()}


def plain(work):
    """Times of work()."""
    seconds = []
    for _ in range(calls + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return {"forward": seconds[1:]}


def attention(projection):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in projection.chunk(3, dim=-1))
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.transpose(1, 2).flatten(2)


def parameters():
    def layer():
        weights = [(hidden, 3 * hidden), (hidden, hidden), (hidden, wide), (wide, hidden)]
        return weights + [(columns,) for _, columns in weights] + [(hidden,)] * 4

    shapes = [(padded, hidden), (seq, hidden), (hidden,), (hidden,)] + layer() * layers
    parameters = [leaf(*shape) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def norm():
    gradients = [parameter.grad for parameter in parameters()]
    return plain(lambda: torch.nn.utils.get_total_norm(gradients).item())


def adamw():
    optimizer = torch.optim.AdamW(parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    return plain(optimizer.step)


def product(m, k, n, stored=""):
    def run():
        left = torch.randn(k, m).t() if stored == "left" else torch.randn(m, k)
        right = torch.randn(n, k).t() if stored == "right" else torch.randn(k, n)
        output = torch.empty(m, n)
        return plain(lambda: torch.mm(left, right, out=output))

    return run


x, y = (lambda: leaf(batch, seq, hidden)), (lambda: leaf(batch, seq, wide))
tokens = torch.arange(rows).mul(7919).remainder(vocabulary)
kernels = {
    "layer norm": lambda: differentiable(
        lambda: (x(), leaf(hidden), leaf(hidden)), lambda x, gain, bias: F.layer_norm(x, (hidden,), gain, bias)),
    "bias and GELU": lambda: differentiable(lambda: (y(), leaf(wide)), lambda y, bias: F.gelu(y + bias)),
    "bias and residual": lambda: differentiable(
        lambda: (x(), leaf(hidden), x()), lambda x, bias, residual: residual + (x + bias)),
    "bias, dropout and residual": lambda: differentiable(
        lambda: (x(), leaf(hidden), x()), lambda x, bias, residual: residual + F.dropout(x + bias, 0.1)),
    "embedding": lambda: differentiable(
        lambda: (leaf(padded, hidden),), lambda table: F.embedding(tokens.view(batch, seq), table)),
    "causal attention": lambda: differentiable(lambda: (leaf(batch, seq, 3 * hidden),), attention),
    "head and loss": lambda: differentiable(
        lambda: (leaf(rows, hidden), leaf(padded, hidden)),
        lambda hidden, table: F.cross_entropy(F.linear(hidden, table), tokens)),
    "norm of the gradient": norm,
    "AdamW": adamw,
    "product: query, key and value": product(rows, hidden, 3 * hidden),
    "product: attention's output": product(rows, hidden, hidden),
    "product: MLP up": product(rows, hidden, wide),
    "product: MLP down": product(rows, wide, hidden),
    "product: MLP up, input gradient": product(rows, wide, hidden, "right"),
    "product: MLP up, weight gradient": product(hidden, rows, wide, "left"),
    "product: logits": product(chunk, hidden, vocabulary, "right"),
    "product: head, input gradient": product(chunk, vocabulary, hidden),
    "product: head, weight gradient": product(vocabulary, chunk, hidden, "left"),
}
results = {name: run() for name, run in kernels.items() if filter_ in name}
print(json.dumps({"version": torch.__version__, "kernels": results}))
