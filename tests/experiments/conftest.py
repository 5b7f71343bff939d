"""The sentences of a toy training text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.training_helpers import make_sentences


@pytest.fixture
def sentences_file(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in make_sentences(64)))
    return path
