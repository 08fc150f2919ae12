"""A yardstick: the model and the schedule that nanoGPT's README gives for a CPU, written out in plain torch.

Block size 64, batches of 12, 4 layers, 4 heads, width 128, no dropout, 2000 iterations; from its configuration for
characters: AdamW with β = 0.9 and 0.99, weight decay 0.1 on matrices, learning rate up to 1e-3 in 100 iterations and
along a cosine down to 1e-4, gradients clipped at 1. Learned positions, GELU, no biases, output tied to the embedding.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.docstrings import ALPHABET, encode, make_corpus
from course_lib.language_model import text_windows
from course_lib.writing import random_starts

LAYERS, HEADS, WIDTH, BLOCK, BATCH, ITERATIONS = 4, 4, 128, 64, 12, 2000
PEAK, LOWEST, WARM_UP = 1e-3, 1e-4, 100


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide, self.back = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, width). Returns: the same shape."""
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (batch, head, time, width / heads)
        x = x + self.mix(attended.transpose(1, 2).flatten(start_dim=2))
        return x + self.back(F.gelu(self.wide(self.norm_2(x))))


class NanoGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(len(ALPHABET), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.layers, self.norm = nn.Sequential(*(Layer() for _ in range(LAYERS))), nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                is_on_residual_path = name.endswith(("mix.weight", "back.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if is_on_residual_path else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: logits (batch, time, vocab)."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        logits: Tensor = self.norm(self.layers(x)) @ self.tokens.weight.T
        return logits


def learning_rate(iteration: int, iterations: int) -> float:
    """Iterations are counted from 0."""
    if iteration < WARM_UP:
        return PEAK * (iteration + 1) / (WARM_UP + 1)
    done = (iteration - WARM_UP) / (iterations - WARM_UP)
    return LOWEST + (PEAK - LOWEST) * (1 + math.cos(math.pi * done)) / 2


def train(seed: int, iterations: int = ITERATIONS) -> NanoGPT:
    torch.manual_seed(seed)
    model = NanoGPT()
    matrices = [each for each in model.parameters() if each.dim() >= 2]
    others = [each for each in model.parameters() if each.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.99))
    ids = encode(make_corpus().train)
    for iteration, starts in enumerate(random_starts(len(ids), BLOCK, BATCH, iterations, seed)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(iteration, iterations)
        inputs, targets = text_windows(ids, starts, BLOCK)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model
