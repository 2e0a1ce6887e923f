#!/usr/bin/env python3
"""PyTorch's training step on the CPU for the model of step.rs: what the bench compares with.

One step is forward, backward and AdamW(fused=True), its fastest, in float32; tied head, exact GELU, no dropout. Prints a line
of JSON for each step, in seconds, and a last one with the peak memory. Attention is torch's fused operation (sdpa) or made of
a product, a softmax and a product (plain).

usage: torch_step.py sdpa|plain STEPS THREADS LAYERS HIDDEN HEADS SEQ BATCH VOCABULARY
"""
import json
import math
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

steps, threads, layers, hidden, heads, seq, batch, vocabulary = map(int, sys.argv[2:])
is_fused = {"sdpa": True, "plain": False}[sys.argv[1]]
torch.set_num_threads(threads)
torch.set_num_interop_threads(threads)
later = torch.ones(seq, seq, dtype=torch.bool).triu(1)


def attention(q, k, v):
    if is_fused:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / math.sqrt(hidden // heads)
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
        self.query_key_value, self.dense = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        parts = self.query_key_value(self.norms[0](x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
        x = x + self.dense(attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(seq, hidden)
        self.layers, self.norm = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(hidden)
        for embedding in (self.words, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens):
        x = self.layers(self.words(tokens) + self.positions.weight)
        return F.linear(self.norm(x), self.words.weight)


model = Gpt2()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
tokens = torch.arange(batch * (seq + 1)).mul(7919).remainder(min(vocabulary, 50257)).view(batch, seq + 1)
for _ in range(steps):
    marks = [time.perf_counter()]
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    marks.append(time.perf_counter())
    optimizer.zero_grad()
    loss.backward()
    marks.append(time.perf_counter())
    optimizer.step()
    marks.append(time.perf_counter())
    parts = dict(zip(("forward", "backward", "optimizer"), (b - a for a, b in zip(marks, marks[1:]))))
    print(json.dumps({"step": marks[-1] - marks[0], **parts}), flush=True)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"peak_bytes": peak, "version": torch.__version__}))
