"""Fitting a flow lowers its objective, repeats itself, and is the optimizer's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sentemb.errors import InputError
from sentemb.training import resolve
from sentemb.transforms import FlowConfig, fit_flow
from sentemb.transforms.fit import BertAdam


def skewed(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    """Vectors that no shift and scale makes normal: half of the channels depend on the others."""
    base = np.random.default_rng(seed).normal(size=(count, width // 2))
    return (np.concatenate([base, base**2 + 0.3 * base], axis=1) * 2 + 5).astype(np.float32)


@pytest.mark.parametrize("optimizer", ["adamw", "bert-adam"])
@pytest.mark.parametrize(("coupling", "permutation"), [("additive", "reverse"), ("affine", "learned")])
def test_fitting_lowers_the_bits_of_unseen_vectors(optimizer: Any, coupling: Any, permutation: Any) -> None:
    options = {"optimizer": optimizer, "coupling": coupling, "permutation": permutation}
    short, long = (
        fit_flow(
            skewed(128), skewed(128, seed=1), config=FlowConfig(learning_rate=5e-3, epochs=epochs, **options)
        )
        for epochs in (1, 5)
    )
    unseen = torch.from_numpy(skewed(300, seed=2))
    with torch.no_grad():
        assert float(long.bits(unseen).mean()) < float(short.bits(unseen).mean()) - 0.05
    assert not long.training


def test_the_first_step_begins_at_the_initialised_flow() -> None:
    seen: list[tuple[int, int, float]] = []
    first, second = skewed(64), skewed(64, seed=1)
    config = FlowConfig(batch_size=64, learning_rate=1e-12)
    flow = fit_flow(first, second, config=config, on_step=lambda *report: seen.append(report))
    ((step, steps, bits),) = seen
    expected = torch.cat([flow.bits(torch.from_numpy(side)) for side in (first, second)]).mean()
    assert (step, steps) == (1, 1)
    assert bits == pytest.approx(float(expected.detach()), abs=1e-5)
    initial = flow.stages[0][0].norm(torch.from_numpy(first))
    torch.testing.assert_close(initial.mean(dim=0), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(initial.std(dim=0, correction=0), torch.ones(8), atol=1e-4, rtol=0)


def test_the_same_seed_gives_the_same_flow_and_leaves_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    flows = [fit_flow(skewed(100), config=FlowConfig(seed=seed, width=4)) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    vectors = torch.from_numpy(skewed(5))
    same, again, other = (flow.transform(vectors)[0] for flow in flows)
    assert torch.equal(same, again)
    assert not torch.allclose(same, other)


@pytest.mark.parametrize(
    ("count", "second", "steps"), [(70, True, 2), (70, False, 1), (20, True, 1), (4, False, 1)]
)
def test_steps_of_an_epoch(count: int, second: bool, steps: int) -> None:
    seen: list[int] = []
    fit_flow(
        skewed(count),
        skewed(count) if second else None,
        config=FlowConfig(epochs=2),
        on_step=lambda step, of, bits: seen.append(of),
    )
    assert seen == [2 * steps] * (2 * steps)


def test_berts_adam_by_hand() -> None:
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = BertAdam([weight], lr=0.1, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-6)
    expected, mean, square = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for step in range(3):
        gradient = np.array([0.5 + step, -1.5])
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        expected = expected - 0.1 * (mean / (np.sqrt(square) + 1e-6) + 0.01 * expected)
        assert weight.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_the_released_preset() -> None:
    config = resolve("flow", overrides={"output": "o", "preset": "released", "seed": 7}).flow
    assert (config.optimizer, config.encoder_dropout, config.seed) == ("bert-adam", True, 7)
    assert resolve("flow", overrides={"output": "o"}).flow == FlowConfig()
    with pytest.raises(InputError, match=r"needs an encoder.*add_flow"):
        fit_flow(skewed(64), config=config)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (skewed(3), None, "too few sentences to fit a flow"),
        (skewed(30), skewed(29), r"differ: \(30, 8\) and \(29, 8\)"),
        (skewed(30)[:, :3], None, "3 dimensions cannot be halved"),
        (np.full((30, 8), np.inf), None, "contains NaN or infinity: 30 rows, the first is row 0"),
        (skewed(30).astype(np.float64) * 1e30, None, "diverged at step 1 of 1"),
    ],
)
def test_what_no_flow_can_be_fitted_to(first: Any, second: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_flow(first, second)
