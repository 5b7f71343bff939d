"""A small BERT for several tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import build_tiny_bert


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a raw one-layer BERT."""
    return build_tiny_bert(tmp_path_factory.mktemp("small-bert"), layers=1)
