"""The data folder, and the environment variable that names it."""

from __future__ import annotations

import os
from pathlib import Path

from sentemb.errors import InputError

VARIABLE = "SENTEMB_DATA"
"""Environment variable that names the data folder."""


def resolve_data_dir(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The data folder: the argument, or else `SENTEMB_DATA`."""
    given = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if given is None:
        return None
    path = Path(given).expanduser()
    if not path.exists():
        source = "" if data_dir is not None else f" (from {VARIABLE})"
        raise InputError(f"no such data folder: {path}{source}")
    return path
