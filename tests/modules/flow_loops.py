"""Reference implementation of a flow step and the objective, one number at a time."""

from __future__ import annotations

import math

import torch

from sentemb.modules.flow import ActNorm, Coupling, FlowStep, LearnedPermutation


def actnorm(norm: ActNorm, row: list[float]) -> tuple[list[float], float]:
    shift, log_scale = norm.shift.tolist(), norm.log_scale.tolist()
    scaled = [(value + shift[i]) * math.exp(3 * log_scale[i]) for i, value in enumerate(row)]
    return scaled, sum(3 * value for value in log_scale)


def matrix_of(permutation: LearnedPermutation) -> list[list[float]]:
    """Return the product P L U."""
    order = permutation.order.tolist()
    size = len(order)
    lower = [
        [1.0 if i == j else float(permutation.lower[i, j]) if j < i else 0.0 for j in range(size)]
        for i in range(size)
    ]
    diagonal = [
        float(permutation.signs[i]) * math.exp(float(permutation.log_diagonal[i])) for i in range(size)
    ]
    upper = [
        [diagonal[i] if i == j else float(permutation.upper[i, j]) if j > i else 0.0 for j in range(size)]
        for i in range(size)
    ]
    product = [
        [sum(lower[i][k] * upper[k][j] for k in range(size)) for j in range(size)] for i in range(size)
    ]
    return [product[order[i]] for i in range(size)]


def coupling(layer: Coupling, row: list[float]) -> tuple[list[float], float]:
    half = len(row) // 2
    hidden = row[:half]
    for linear, norm in ((layer.network[0], layer.network[1]), (layer.network[3], layer.network[4])):
        weight = linear.weight.tolist()
        hidden = [sum(w * h for w, h in zip(weights, hidden, strict=True)) for weights in weight]
        hidden = [max(value, 0.0) for value in actnorm(norm, hidden)[0]]
    last = layer.network[6]
    weight, bias = last.linear.weight.tolist(), last.linear.bias.tolist()
    log_scale = last.log_scale.tolist()
    outputs = [
        (sum(w * h for w, h in zip(weight[i], hidden, strict=True)) + bias[i]) * math.exp(3 * log_scale[i])
        for i in range(len(bias))
    ]
    second, log_det = row[half:], 0.0
    if layer.kind == "additive":
        return row[:half] + [value + outputs[i] for i, value in enumerate(second)], 0.0
    for i, value in enumerate(second):
        scale = 1 / (1 + math.exp(-(outputs[2 * i + 1] + 2)))
        second[i] = (value + outputs[2 * i]) * scale
        log_det += math.log(scale)
    return row[:half] + second, log_det


def flow_step(step: FlowStep, row: list[float]) -> tuple[list[float], float]:
    row, log_det = actnorm(step.norm, row)
    if isinstance(step.permutation, LearnedPermutation):
        matrix = matrix_of(step.permutation)
        row = [sum(weight * value for weight, value in zip(weights, row, strict=True)) for weights in matrix]
        log_det += float(torch.linalg.slogdet(torch.tensor(matrix, dtype=torch.float64))[1])
    else:
        row = row[::-1]
    row, change = coupling(step.coupling, row)
    return row, log_det + change


def bits(stages: list[list[FlowStep]], row: list[float]) -> tuple[list[float], float]:
    """Return z and the bits per dimension of one vector."""
    size, log_det, leaving = len(row), 0.0, []
    for level, steps in enumerate(stages):
        if level:
            kept = len(row) - len(row) // 2
            leaving += row[kept:]
            row = row[:kept]
        for step in steps:
            row, change = flow_step(step, row)
            log_det += change
    latent = leaving + row
    log_normal = sum(-0.5 * value * value - 0.5 * math.log(2 * math.pi) for value in latent)
    return latent, -(log_normal + log_det) / (math.log(2) * size)
