from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb.errors import InputError
from sentemb.training.state import load_state, random_state, save_state, set_random_state


def test_a_nested_state_comes_back_with_its_types(tmp_path: Path) -> None:
    state = {
        "state": {0: {"step": torch.tensor(3.0), "average": torch.randn(2, 3)}, 1: {}},
        "groups": [{"betas": (0.9, 0.999), "lr": 1e-5, "names": ["a", None], "fused": True}],
        "half": torch.ones(2, dtype=torch.bfloat16),
    }
    save_state(tmp_path / "state.safetensors", state)
    loaded = load_state(tmp_path / "state.safetensors")
    assert list(loaded["state"]) == [0, 1]
    assert loaded["groups"] == state["groups"]
    assert isinstance(loaded["groups"][0]["betas"], tuple)
    assert torch.equal(loaded["state"][0]["average"], state["state"][0]["average"])
    assert loaded["half"].dtype == torch.bfloat16


def test_an_optimizer_state_survives(tmp_path: Path) -> None:
    def steps(optimizer: torch.optim.Optimizer, weight: torch.nn.Parameter, count: int) -> None:
        for _ in range(count):
            weight.grad = 2 * weight.detach()
            optimizer.step()

    first = torch.nn.Parameter(torch.randn(4))
    optimizer = torch.optim.AdamW([first], lr=0.1)
    steps(optimizer, first, 3)
    save_state(tmp_path / "optimizer.safetensors", optimizer.state_dict())
    second = torch.nn.Parameter(first.detach().clone())
    resumed = torch.optim.AdamW([second], lr=0.5)
    resumed.load_state_dict(load_state(tmp_path / "optimizer.safetensors"))
    steps(optimizer, first, 3)
    steps(resumed, second, 3)
    assert torch.equal(first, second)


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="set"):
        save_state(tmp_path / "state.safetensors", {"a": {1, 2}})


@pytest.mark.parametrize("content", [b"", b"\x80\x04]\x94.", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"state\.safetensors"):
        load_state(path)


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float]:
        # The generator that numpy keeps for everyone is the one in question.
        return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: NPY002

    draw()
    save_state(tmp_path / "random.safetensors", random_state())
    expected = draw()
    assert draw() != expected
    set_random_state(load_state(tmp_path / "random.safetensors"))
    assert draw() == expected
