"""A training file, a dev set and a configuration for the tiny BERT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.training import TrainConfig, resolve
from tests.training.training_helpers import make_sentences


@pytest.fixture(scope="session")
def sentences_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """45 sentences, five of them twice, one a line."""
    sentences = make_sentences(40)
    path = tmp_path_factory.mktemp("data") / "sentences.txt"
    path.write_text("\n".join([*sentences, *sentences[:5]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def dev_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 scored pairs."""
    first, second = make_sentences(30, seed=1), make_sentences(30, seed=2)
    lines = [f"{a}\t{b}\t{index % 6}" for index, (a, b) in enumerate(zip(first, second, strict=True))]
    path = tmp_path_factory.mktemp("data") / "dev.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def configure(
    tiny_bert: Path, sentences_file: Path, dev_file: Path, tmp_path: Path
) -> Callable[..., TrainConfig]:
    """Resolve a recipe for the tiny BERT; keyword arguments override."""

    def build(recipe: str = "sg-opt", **overrides: Any) -> TrainConfig:
        values: dict[str, Any] = {
            "base": str(tiny_bert),
            "data": str(sentences_file),
            "dev": str(dev_file),
            "output": str(tmp_path / "output"),
            "batch_size": 8,
            "learning_rate": 1e-3,
            "max_length": 16,
            "eval_steps": 2,
            "stopping": "none",
        } | overrides
        if recipe.startswith("sg"):
            values["loss_options"] = {"projection_width": 8} | values.get("loss_options", {})
        return resolve(recipe, overrides=values)

    return build
