#!/usr/bin/env python3
"""The step of training_step.cpp with PyTorch: the same model, batch, loss, clipping and AdamW.

  training_step.py THREADS [STEPS]      (Debian: python3-torch libopenblas0-pthread; OPENBLAS_CORETYPE=SKYLAKEX on AVX-512)
"""
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F

VOCAB, HIDDEN, LAYERS, HEADS, INTERMEDIATE, SEQ, BATCH = 32000, 288, 6, 6, 768, 256, 8


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.q, self.k, self.v, self.o = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = linear(HIDDEN, INTERMEDIATE), linear(HIDDEN, INTERMEDIATE), linear(INTERMEDIATE, HIDDEN)

    def forward(self, x, cos, sin, mask):
        batch, seq, _ = x.shape
        h = self.norm1(x)
        q, k, v = (project(h).view(batch, seq, HEADS, -1).transpose(1, 2) for project in (self.q, self.k, self.v))
        q, k = (t * cos + torch.cat((-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]), -1) * sin for t in (q, k))
        weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask).softmax(-1)
        x = x + self.o((weights @ v).transpose(1, 2).reshape(batch, seq, HIDDEN))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        size = HIDDEN // HEADS
        angle = torch.outer(torch.arange(ids.shape[1]).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        angle = torch.cat((angle, angle), -1)
        mask = torch.full((ids.shape[1], ids.shape[1]), -math.inf).triu(1)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, angle.cos(), angle.sin(), mask)
        return self.norm(x) @ self.embed.weight.T


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(threads)
    print(torch.__config__.parallel_info(), file=sys.stderr)
    torch.manual_seed(1)
    model = Model()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{'params': matrices, 'weight_decay': 0.01}, {'params': others, 'weight_decay': 0.0}], lr=1e-3)
    ids = torch.randint(VOCAB, (BATCH, SEQ))
    times = []
    for step in range(steps + 1):
        begin = time.time()
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.time() - begin)
        print('step %d: %.3f s, loss %.4f' % (step, times[-1], loss.item()), file=sys.stderr)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print('PyTorch %s, %d threads: median %.3f s a step, %d MB at most' % (
        torch.__version__, threads, sorted(times[1:])[steps // 2], memory))


main()
