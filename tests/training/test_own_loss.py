"""A loss of the user's own takes part in runs as a built-in one does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.training import TrainConfig, train
from tests.training.training_helpers import assert_equal, model_weights

Configure = Callable[..., TrainConfig]
SOURCE = """
import torch
from torch import nn


class Together(nn.Module):
    def __init__(self, model, *, scale: float = 20.0):
        super().__init__()
        self.model, self.scale = model, scale
        self.head = nn.Linear(16, 16)

    def forward(self, sentence_features, labels=None):
        (column,) = sentence_features
        first, second = (self.head(self.model(dict(column))["sentence_embedding"]) for _ in range(2))
        logits = self.scale * nn.functional.normalize(first) @ nn.functional.normalize(second).T
        return nn.functional.cross_entropy(logits, torch.arange(len(logits)))


class NoLoss:
    pass
"""


@pytest.fixture
def own(write_file: Callable[[str, str], Path]) -> str:
    return f"{write_file('my_losses.py', SOURCE)}:Together"


def test_an_own_loss_trains_and_is_recorded(configure: Configure, own: str, tmp_path: Path) -> None:
    config = configure("simcse", loss=own, loss_options={"scale": 10.0}, max_steps=3, use_last=True)
    assert config.loss_options == {"scale": 10.0}  # none of SimCSE's
    run = train(config)
    again = train(config.replace(output=str(tmp_path / "again")))
    assert_equal(model_weights(run.output), model_weights(again.output))
    loss = json.loads((run.output / "run" / "record.json").read_text())["loss"]
    assert loss["name"] == "Together"
    assert len(loss["sha256"]) == 64
    card = (run.output / "README.md").read_text()
    assert "my_losses.py:Together scale=10" in card
    assert str(tmp_path) not in card


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("absent.py:Together", {}, "no such file: absent.py; specify a loss as FILE.py:CLASS"),
        ("{file}:Togehter", {}, "my_losses.py: Togehter; did you mean Together?"),
        ("{file}:NoLoss", {}, "my_losses.py: NoLoss; choose among Together"),
        ("{file}:Together", {"scal": 1.0}, "unknown option of Together: scal; did you mean scale?"),
        ("{file}:Together", {"scale": "much"}, "loss_options.scale is 'much'; it must be a valid number"),
        ("{broken}:Loss", {}, "broken.py:2: ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_in_an_own_loss_is_one_line(
    name: str,
    options: dict[str, object],
    message: str,
    own: str,
    configure: Configure,
    write_file: Callable[[str, str], Path],
) -> None:
    broken = write_file("broken.py", "\n1 / 0\n")
    loss = name.format(file=own.rpartition(":")[0], broken=broken)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        train(configure("simcse", loss=loss, loss_options=options))
    assert "\n" not in str(caught.value)
