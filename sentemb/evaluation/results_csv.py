"""The table that evaluators of sentence-transformers keep beside a run."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path


def csv_name(name: str) -> str:
    """The file of an evaluator."""
    return f"{re.sub(r'[^0-9A-Za-z._-]+', '_', name)}_results.csv"


def append_row(path: Path, metrics: Mapping[str, float], epoch: float, steps: int) -> None:
    """Add a row, below a header where the file is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(["epoch", "steps", *metrics])
        writer.writerow([epoch, steps, *metrics.values()])
