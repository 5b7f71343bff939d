"""Where an index lives: in a folder, or in LanceDB."""

from __future__ import annotations

from pathlib import Path

SCHEME = "lancedb:"


def in_lancedb(address: str | Path) -> bool:
    """Whether an address names an index in LanceDB."""
    return str(address).startswith(SCHEME)
