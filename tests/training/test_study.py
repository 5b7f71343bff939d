"""A table of trained rows: what is there is not run again, and other settings are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.losses import ViewCache
from sentemb.training import TrainConfig
from sentemb.training.study import Row, judge_rows, recipe_row
from tests.training.training_helpers import make_sentences


@pytest.fixture
def pairs() -> list[ScoredPairs]:
    gold = np.random.default_rng(0).integers(0, 6, size=30).astype(float)
    return [ScoredPairs("mine", "test", make_sentences(30, seed=8), make_sentences(30, seed=9), gold)]


@pytest.fixture
def make_row(configure: Callable[..., TrainConfig]) -> Callable[..., Row]:
    cache = ViewCache()

    def make(name: str, **options: Any) -> Row:
        values = configure(max_steps=2).values()
        kept = ("base", "data", "batch_size", "max_length", "max_steps", "learning_rate")
        # Without a dev set the last weights are kept, which are trained ones.
        overrides = {"dev": "none", **{key: values[key] for key in kept}}
        loss = {"projection_width": 8} | options
        return recipe_row(name, "sg-opt", {**overrides, "loss_options": loss}, view_cache=cache)

    return make


def test_rows_and_seeds_become_records_of_trained_models(
    make_row: Callable[..., Row], pairs: list[ScoredPairs], tmp_path: Path, tiny_bert: Path
) -> None:
    folder = tmp_path / "table"
    rows = [make_row("sg-opt"), make_row("no-head", projection_width=None)]
    records = judge_rows(rows, (1, 2), pairs, folder=folder)
    names = [f"{row.name}-seed-{seed}" for row in rows for seed in (1, 2)]
    assert [(record.model, record.seed) for record in records] == list(zip(names, [1, 2, 1, 2], strict=True))
    raw = load_encoder(tiny_bert, pooling="cls").fingerprint
    assert len({raw, *(record.fingerprint for record in records)}) == 5  # all were trained, none alike
    assert not list((folder / "models").iterdir())
    # Nothing is trained again: a row that cannot train gives the same records.
    broken = [Row(row.name, row.settings, lambda *_: pytest.fail("trained again")) for row in rows]
    again = judge_rows(broken, (1, 2), pairs, folder=folder)
    assert [record.fingerprint for record in again] == [record.fingerprint for record in records]


def test_other_settings_and_other_sets_are_refused(
    make_row: Callable[..., Row], pairs: list[ScoredPairs], tmp_path: Path
) -> None:
    row = Row("a", {"temperature": 0.01}, lambda *_: None)
    with pytest.raises(InputError, match="no such"):
        judge_rows([row], (1,), pairs, folder=tmp_path)  # left no model
    with pytest.raises(InputError, match="temperature"):
        judge_rows([Row("a", {"temperature": 0.1}, row.train)], (1,), pairs, folder=tmp_path)
    with pytest.raises(InputError, match="sets"):
        judge_rows([row], (1,), pairs * 2, folder=tmp_path)


def test_a_finished_model_without_a_record_is_judged_not_trained(
    make_row: Callable[..., Row], pairs: list[ScoredPairs], tmp_path: Path
) -> None:
    row = make_row("sg-opt")
    elsewhere = tmp_path / "elsewhere"
    (first,) = judge_rows([row], (1,), pairs, folder=tmp_path, models=elsewhere, keep_models=True)
    model = elsewhere / "sg-opt-seed-1"
    weights = (model / "model.safetensors").stat().st_mtime_ns
    for path in [*tmp_path.glob("*.json"), *tmp_path.glob("*.safetensors")]:
        path.unlink()
    (second,) = judge_rows([row], (1,), pairs, folder=tmp_path, models=elsewhere, keep_models=True)
    assert second.fingerprint == first.fingerprint
    assert (model / "model.safetensors").stat().st_mtime_ns == weights
    shutil.rmtree(model)
    assert judge_rows([row], (1,), pairs, folder=tmp_path)[0].fingerprint == first.fingerprint
