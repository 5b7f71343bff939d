"""A model and an index that the servers of all tests share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import sentemb
from sentemb.search import SearchIndex
from tests.training.training_helpers import make_sentences

# They need the extra serve, and httpx, which the test extra brings.
collect_ignore_glob = [] if find_spec("fastapi") and find_spec("httpx") else ["test_*.py"]

HOSTILE = "<script>alert(1)</script> \u202eevil"
TEXTS = [*make_sentences(30, seed=3), HOSTILE, "the cat of IT sat in it"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """The tiny BERT with mean pooling; nobody changes it."""
    folder = tmp_path_factory.mktemp("served") / "tiny"
    sentemb.load(tiny_bert, pooling="mean", device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="session")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of `TEXTS` with a year each; who changes it takes a copy."""
    folder = tmp_path_factory.mktemp("indexes") / "animals"
    documents = [(place, text, {"year": 2000 + place}) for place, text in enumerate(TEXTS)]
    SearchIndex.build(documents, "static-mini", language="en").save(folder)
    return folder
