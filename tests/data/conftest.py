"""Fixtures of the data room: small copies of real sets, and a hub on the loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.loopback_hub import LoopbackHub


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture
def sets_copy(tmp_path: Path, shared_data: Path) -> Path:
    """A writable data folder with STS13, STS15, STS-B and SICK in SentEval's layout."""
    root = tmp_path / "data"
    for folder in ("STS/STS13-en-test", "STS/STS15-en-test", "STS/STSBenchmark", "SICK"):
        target = root / "senteval" / "downstream" / folder
        shutil.copytree(
            shared_data / "senteval" / "downstream" / folder, target, copy_function=shutil.copyfile
        )
        for path in (target, *target.parents):
            if path == root.parent:
                break
            path.chmod(0o755)  # the real data is read-only, folders included
    return root
