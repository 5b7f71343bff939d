"""Programs of the repository, run in this process as a user would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest


def run_program(monkeypatch: pytest.MonkeyPatch, path: Path, *arguments: str) -> None:
    """Run a program; one that ends with an error raises its SystemExit."""
    monkeypatch.setattr(sys, "argv", [path.name, *arguments])
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as left:
        if left.code:
            raise
