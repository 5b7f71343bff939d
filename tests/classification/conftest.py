"""One classifier of each kind of input, trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.classification import ClassifierRun, fit_classifier
from tests.classification.toy import toy_config, toy_set


@pytest.fixture(scope="session")
def trained(small_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassifierRun:
    """A classifier of single texts."""
    config = toy_config("ce", small_bert, tmp_path_factory.mktemp("runs") / "texts", epochs=6, eval_steps=6)
    return fit_classifier(config, toy_set(), toy_set(24, seed=1, split="dev"))


@pytest.fixture(scope="session")
def trained_on_pairs(small_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassifierRun:
    """A classifier of pairs, in which the second text decides."""
    config = toy_config("ce", small_bert, tmp_path_factory.mktemp("runs") / "pairs", epochs=16, eval_steps=24)
    return fit_classifier(config, toy_set(pairs=True), toy_set(24, pairs=True, seed=1, split="dev"))
