"""The arrows of ARCHITECTURE.md, checked on every import statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sentemb"
ALLOWED = {
    "augmentation": {"data", "modules", "errors", "_files"},
    "losses": {"_compat", "_vectors", "errors"},
    "modules": {"_compat", "_vectors", "errors", "_files"},
    "data": {"errors", "_files"},
    "encoding": {"_compat", "_threads", "modules", "errors", "_files"},
    "evaluation": {"encoding", "data", "_compat", "_tables", "_threads", "errors", "_files"},
    "classification": {
        "losses",
        "modules",
        "data",
        "encoding",
        "evaluation",
        "training",
        "_compat",
        "errors",
        "_files",
    },
    "multitask": {
        "losses",
        "modules",
        "data",
        "encoding",
        "evaluation",
        "training",
        "_compat",
        "_vectors",
        "errors",
        "_files",
    },
    "pretraining": {"data", "_compat", "errors", "_files"},
    "report": {"evaluation", "training", "errors", "_files"},
    "training": {"losses", "modules", "data", "evaluation", "_compat", "errors", "_files"},
    "search": {"encoding", "modules", "data", "errors", "_files"},
    "transforms": {"encoding", "modules", "data", "training", "_compat", "errors", "_files"},
}
UPSTREAM_PRIVATE = ("sentence_transformers.base", "sentence_transformers.util.distributed")


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_room_imports_only_what_its_row_allows(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for name in imported_names(path):
            parts = name.split(".")
            if parts[0] == "sentemb" and len(parts) > 1 and parts[1] != room:
                assert parts[1] in ALLOWED[room] | {"__version__", "_lazy"}, f"{path.name} imports {name}"


def test_only_compat_touches_private_upstream_names() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "_compat.py":
            continue
        for name in imported_names(path):
            assert not name.startswith(UPSTREAM_PRIVATE), f"{path}: {name}; route it through _compat"


def test_files_stay_small() -> None:
    for folder in (PACKAGE, PACKAGE.parent / "training", PACKAGE.parent / "eval"):
        for path in folder.rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_only_encoding_calls_encode() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "encoding" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        assert "model.encode(" not in text, f"{path} calls model.encode; go through sentemb.encoding"
