"""The demo's policy: a decoder-only transformer of about 102 thousand parameters, and decoding with a key-value cache.

Pre-LayerNorm (Xiong et al. 2020), learned positions, GELU. Shapes: B rows, T tokens, C width, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.prompts.sorting import END, PAD, VOCABULARY

WIDTH, LAYERS, HEADS, POSITIONS = 64, 2, 4, 32

Cache = tuple[Tensor, Tensor]
"""Keys and values of the tokens so far, each [B, heads, T, C / heads]."""


class Block(nn.Module):
    """Attention, then an MLP of four times the width."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.projection, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """[B, T, C]; with a cache T is 1."""
        rows, length, _ = x.shape
        heads = self.projection(self.before_attention(x)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        if cache is not None:
            key, value = torch.cat((cache[0], key), dim=2), torch.cat((cache[1], value), dim=2)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.merge(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.narrow(functional.gelu(self.widen(self.before_mlp(x)))), (key, value)


class SortingModel(nn.Module):
    """Padding, if any, stands on the right, where causal attention never looks."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.symbols, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last_norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                std = 0.02 if name in ("symbols.weight", "positions.weight") else 1 / math.sqrt(parameter.shape[1])
                nn.init.normal_(parameter, std=std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token: [B, T] int64 -> [B, T, V] float32."""
        return self.step(ids, None)[0]

    def step(self, ids: Tensor, caches: list[Cache] | None) -> tuple[Tensor, list[Cache]]:
        """The same, for a whole prompt (no caches) or for one more token [B, 1] after what the caches hold."""
        start = 0 if caches is None else caches[0][0].shape[2]
        x = self.symbols(ids) + self.positions.weight[start : start + ids.shape[1]]
        grown: list[Cache] = []
        for layer, block in enumerate(self.blocks):
            x, cache = block(x, None if caches is None else caches[layer])
            grown.append(cache)
        return self.head(self.last_norm(x)), grown


@dataclass(frozen=True, slots=True)
class Decoded:
    """Responses of B rows in R steps. After its end token a row is padded with PAD, 0 and 0."""

    token_ids: Tensor
    """[B, R] int64."""
    logprobs: Tensor
    """[B, R] float32, at temperature 1."""
    entropy: Tensor
    """[B, R] float32, in nats, of the distribution that each token was drawn from."""
    lengths: Tensor
    """[B] int64, the end token included."""


@torch.inference_mode()
def decode(model: SortingModel, prompts: Tensor, noise: Tensor) -> Decoded:
    """Sample after prompts of one length, [B, T] int64: the argmax of logits + `noise` [B, R, V], R being the limit.

    Gumbel noise samples at temperature 1 (Gumbel-max), zeros are greedy. A prompt that siblings share is read once.
    """
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    different, sibling = torch.unique(prompts, dim=0, return_inverse=True)
    logits, shared = model.step(different, None)
    logits, caches = logits[sibling], [(key[sibling], value[sibling]) for key, value in shared]
    live = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
    lengths = torch.zeros(len(prompts), dtype=torch.int64, device=prompts.device)
    for step in range(noise.shape[1]):
        logprobs = logits[:, -1].log_softmax(-1)
        drawn = (logprobs + noise[:, step]).argmax(-1).where(live, PAD)
        chosen = logprobs.gather(1, drawn.unsqueeze(1)).squeeze(1)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        columns.append((drawn, chosen.where(live, 0.0), entropy.where(live, 0.0)))
        lengths += live
        live = live & (drawn != END)
        if step + 1 == noise.shape[1] or not live.any():
            break
        logits, caches = model.step(drawn.unsqueeze(1), caches)
    token_ids, chosen, entropy = (torch.stack(part, dim=1) for part in zip(*columns, strict=True))
    return Decoded(token_ids, chosen, entropy, lengths)
