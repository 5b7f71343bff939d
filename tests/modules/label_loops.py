"""Reference implementations of heads with label vectors as loops over texts, labels and tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

LENGTHS = (4, 1, 7)


def make_features(width: int, *, lengths: tuple[int, ...] = LENGTHS, padding: int = 0) -> dict[str, Any]:
    """Return the output of an encoder in float64; the values at padded positions must not matter."""
    generator = torch.Generator().manual_seed(3)
    states = [torch.randn(length, width, generator=generator, dtype=torch.float64) for length in lengths]
    longest = max(lengths) + padding
    padded = [torch.cat([s, torch.full((longest - len(s), width), 1e3, dtype=torch.float64)]) for s in states]
    token_embeddings = torch.stack(padded).requires_grad_()
    mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths])
    return {
        "token_embeddings": token_embeddings,
        "attention_mask": mask,
        "sentence_embedding": token_embeddings[:, 0],
    }


def rows_of(features: dict[str, Any]) -> list[Tensor]:
    """Return the hidden states of each text without padding, `(length, d)`."""
    lengths = features["attention_mask"].sum(1).tolist()
    return [states[:length] for states, length in zip(features["token_embeddings"], lengths, strict=True)]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    return (first @ second) / ((first @ first).sqrt() * (second @ second).sqrt())


def linear(layer: nn.Linear, vector: Tensor) -> Tensor:
    return torch.stack([row @ vector + bias for row, bias in zip(layer.weight, layer.bias, strict=True)])


def projected(vector: Tensor, layers: list[nn.Linear], *, last_relu: bool = False) -> Tensor:
    for place, layer in enumerate(layers):
        vector = linear(layer, vector)
        if place + 1 < len(layers) or last_relu:
            vector = torch.stack([value if value > 0 else 0 * value for value in vector])
    return vector


def label_mean(states: Tensor, labels: Tensor, convolution: nn.Conv1d, *, relu: bool = True) -> Tensor:
    """Compute z of Eq. 9 for one text."""
    length, half = len(states), convolution.kernel_size[0] // 2
    similarity = [[cosine(states[t], label) for label in labels] for t in range(length)]
    exponentials = []
    for t in range(length):
        scores = []
        for out in range(len(labels)):
            score = convolution.bias[out]
            for offset in range(-half, half + 1):
                if 0 <= t + offset < length:
                    for label in range(len(labels)):
                        weight = convolution.weight[out, label, offset + half]
                        score = score + weight * similarity[t + offset][label]
            scores.append(score if score > 0 or not relu else 0 * score)
        exponentials.append(torch.exp(torch.stack(scores).max()))
    return sum(e * state for e, state in zip(exponentials, states, strict=True)) / sum(exponentials)


def lsan(states: Tensor, head: nn.Module) -> Tensor:
    """Compute the logits of one text."""
    first, second = head.token_scores[0], head.token_scores[2]
    scores = [linear(second, torch.tanh(linear(first, state))) for state in states]
    fused = []
    for label, vector in enumerate(head.label_vectors):
        exponentials = [torch.exp(score[label]) for score in scores]
        by_itself = sum(e * s for e, s in zip(exponentials, states, strict=True)) / sum(exponentials)
        by_label = sum((vector @ state) * state for state in states)
        one = torch.sigmoid(linear(head.label_gate, by_label))
        two = torch.sigmoid(linear(head.self_gate, by_itself))
        fused.append(one / (one + two) * by_label + two / (one + two) * by_itself)
    return linear(head.output, sum(fused) / len(fused))
