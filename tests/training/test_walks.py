"""Limits on the number of sentemb files that training runs through and a maintainer has to open."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import sentemb
from sentemb.training import TrainConfig, train
from sentemb.training.run import ContrastiveSession, load_rows
from tests.search.test_walks import files_of


def test_a_text_is_followed_from_its_file_to_the_loss_through_few_files(
    configure: Callable[..., TrainConfig],
) -> None:
    config = configure("sg-opt", dev="none", max_steps=1, loss_options={"views": "online"})
    session = ContrastiveSession(config, progress=None, view_cache=None)
    trainer = session.make_trainer([], fresh=True)
    rows = []
    found = files_of(lambda: rows.append(load_rows(config)))
    features = trainer.data_collator([rows[0][place] for place in range(4)])
    trainer.current_gradient_accumulation_steps = 1
    found |= files_of(lambda: trainer.training_step(session.model, features))
    assert len(found) <= 12, sorted(found)
    assert len([path for path in found if path.startswith("/training/")]) <= 2, sorted(found)


def test_a_run_is_followed_through_few_files(configure: Callable[..., TrainConfig]) -> None:
    found = files_of(lambda: train(configure("sg-opt", dev="none", max_steps=1)))
    assert len(found) <= 38, sorted(found)
    assert len([path for path in found if path.startswith("/training/")]) <= 13, sorted(found)


@pytest.mark.parametrize("room", ["training", "classification", "transforms", "multitask", "pretraining"])
def test_no_class_ladder_is_above_two_rungs(room: str) -> None:
    package = Path(sentemb.__file__).parent
    for path in (package / room).rglob("*.py"):
        name = ".".join(("sentemb", *path.relative_to(package).with_suffix("").parts))
        for one in vars(import_module(name.removesuffix(".__init__"))).values():
            if isinstance(one, type) and one.__module__ == name:
                own = [base for base in one.__bases__ if base.__module__.startswith("sentemb.")]
                roots = [
                    base for base in own for root in base.__bases__ if root.__module__.startswith("sentemb.")
                ]
                assert not roots, one
