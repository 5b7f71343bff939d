"""Base models from a hub on 127.0.0.1: found, cached for offline use, refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentemb.modules import build_encoder
from tests.data.loopback_hub import LoopbackHub

Build = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """
import sys
from sentemb.errors import InputError
from sentemb.modules import build_encoder
try:
    model = build_encoder(sys.argv[1], pooling=sys.argv[2] or None, revision=sys.argv[3] or None)
except InputError as error:
    sys.exit(f"refused: {error}")
print([type(module).__name__ for module in model])
"""


@pytest.fixture(scope="module")
def hub(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    saved = tmp_path_factory.mktemp("saved") / "encoder"
    build_encoder(tiny_bert, pooling="last-2", device="cpu").save(str(saved))
    with LoopbackHub() as server:
        server.add("models", "me/raw", tiny_bert)
        server.add("models", "me/encoder", saved)
        server.add("models", "sentence-transformers/short", saved)
        server.add("models", "me/nothing", {"README.md": b"no model"})
        yield server


@pytest.fixture
def build(hub: Any, tmp_path: Path) -> Build:
    """Build in a new process, which reads the hub's address on import; one cache for all calls of a test."""

    def run(
        base: str, pooling: str = "", revision: str = "", *, offline: bool = False
    ) -> subprocess.CompletedProcess[str]:
        environment = os.environ | hub.environment(tmp_path / "cache") | {"HF_HUB_OFFLINE": str(int(offline))}
        command = [sys.executable, "-c", PROGRAM, base, pooling, revision]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("base", "pooling", "modules"),
    [
        ("me/raw", "mean", "['Transformer', 'Pooling']"),
        ("me/encoder", "", "['Transformer', 'WeightedLayerPooling', 'Pooling']"),
        ("me/encoder", "cls", "['Transformer', 'Pooling']"),
        ("short", "", "['Transformer', 'WeightedLayerPooling', 'Pooling']"),
    ],
)
def test_models_load_and_load_again_offline(build: Build, base: str, pooling: str, modules: str) -> None:
    for offline in (False, True):
        result = build(base, pooling, offline=offline)
        assert modules in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("base", "pooling", "revision", "message"),
    [
        ("me/raw", "", "", "raw transformer without a pooling"),
        ("me/absent", "cls", "", "no model 'me/absent': neither a folder here nor a repository"),
        ("absent", "cls", "", "no model 'absent'"),
        ("me/raw", "cls", "no-such-branch", "me/raw has no revision 'no-such-branch'"),
        ("me/nothing", "cls", "", "holds neither config.json nor modules.json"),
    ],
)
def test_mistakes_are_one_line(build: Build, base: str, pooling: str, revision: str, message: str) -> None:
    result = build(base, pooling, revision)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("refused: ")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
