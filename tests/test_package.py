"""The package as it is imported: cheap, and complete at its top."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sentemb

HEAVY = ("torch", "numpy", "transformers", "sentence_transformers", "faiss", "datasets", "matplotlib", "rich")


@pytest.mark.parametrize("name", [name for name in sentemb.__all__ if not name.startswith("__")])
def test_every_name_at_the_top_is_there(name: str) -> None:
    assert getattr(sentemb, name).__name__ == name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        sentemb.nothing_like_it  # noqa: B018


def test_the_command_imports_nothing_heavy_before_it_runs() -> None:
    code = f"import sys, sentemb.cli.main\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
