"""A raw one-layer BERT, and the sentences of a toy training text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import build_tiny_bert
from tests.training.training_helpers import make_sentences


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a raw one-layer BERT."""
    return build_tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


@pytest.fixture
def sentences_file(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in make_sentences(64)))
    return path
