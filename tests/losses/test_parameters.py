from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.losses import LossParameters


class Owner(LossParameters):
    owned_modules: ClassVar[tuple[str, ...]] = ("head", "absent")

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.head = nn.Linear(2, 3)
        self.head.tied = self.model.weight
        self.absent = None


def test_state_holds_the_named_modules_only_and_not_what_is_tied_to_the_encoder() -> None:
    loss = Owner()
    assert set(loss.head_state()) == {"head.weight", "head.bias"}
    assert [id(p) for p in loss.owned_parameters()] == [id(loss.head.weight), id(loss.head.bias)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("head.bias"), r"head.bias is missing, and should be \(3,\)"),
        (lambda state: state.update(other=torch.zeros(1)), r"other is \(1,\), and should be missing"),
        (
            lambda state: state.update({"head.bias": torch.zeros(4)}),
            r"this Owner: the shape of head.bias is \(4,\), and should be \(3,\)",
        ),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, message) -> None:
    loss = Owner()
    before = loss.head_state()
    state = {name: torch.ones_like(tensor) for name, tensor in before.items()}
    change(state)
    with pytest.raises(InputError, match=message):
        loss.load_head_state(state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.head_state().items())


def test_weights_that_do_not_train_are_saved_but_not_optimised() -> None:
    loss = Owner()
    loss.head.bias.requires_grad_(False)
    assert len(list(loss.owned_parameters())) == 1
    assert "head.bias" in loss.head_state()
