"""Pairs of sentences drawn from a larger source, as training text of another domain."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from sentemb.data.columns import load_columns
from sentemb.errors import InputError


def draw_pairs(
    source: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    count: int,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Draw unique pairs of sentences."""
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names[:2]
    if len(names) < 2:
        raise InputError(f"{source} has only one text column, {names[0]}", "use data with two text columns")
    unique = list(dict.fromkeys(zip(*(rows[name] for name in names), strict=True)))
    if not 0 < count <= len(unique):
        raise InputError(
            f"cannot draw {count:,} pairs from the {len(unique):,} unique pairs of {source}", "draw fewer"
        )
    drawn = np.sort(np.random.default_rng(seed).choice(len(unique), size=count, replace=False))
    return [unique[row][0] for row in drawn], [unique[row][1] for row in drawn]
