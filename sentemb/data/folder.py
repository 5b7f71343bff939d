"""The data folder, and the environment variable that names it."""

from __future__ import annotations

import os
import shlex
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
        fetch = f"sentemb data fetch sts --data-dir {shlex.quote(str(path))}"
        raise InputError(
            f"no such data folder: {path}{source}", f"check the path, or download data sets with `{fetch}`"
        )
    return path
