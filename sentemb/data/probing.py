"""SentEval's probing tasks (Conneau et al., 2018): what of a sentence's form its vector still tells."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from sentemb.data.labelled import LabelledTexts
from sentemb.data.lines import read_lines
from sentemb.data.locate import VARIABLE, resolve_data_dir
from sentemb.errors import InputError

SPLITS = {"tr": "train", "va": "dev", "te": "test"}
ROWS = {"train": 100_000, "dev": 10_000, "test": 10_000}
"""Of every task, as published."""
_FOLDERS = ("senteval/probing", "SentEval/data/probing", "data/probing", "probing", ".")
_HINT = (
    "get the files from github.com/facebookresearch/SentEval, folder data/probing, and name the folder with "
    f"probing/ with --data-dir or {VARIABLE}"
)


def read_probe(
    file: str, *, data_dir: str | os.PathLike[str] | None = None, check_rows: bool = True
) -> dict[str, LabelledTexts]:
    """Read a probing task: lines of a split (`tr`, `va`, `te`), a label and a tokenized sentence, by tabs."""
    folder = resolve_data_dir(data_dir)
    found = [folder / place / file for place in _FOLDERS if folder and (folder / place / file).is_file()]
    if not found:
        raise InputError(f"the probing file {file} is not in {folder or 'a data folder'}", _HINT)
    path = found[0]
    rows: dict[str, list[tuple[int, str, str]]] = {split: [] for split in ROWS}
    for number, line in read_lines(path):
        fields = line.rstrip().split("\t")
        if len(fields) < 3 or fields[0] not in SPLITS:
            raise InputError(
                f"{path}, line {number}: expected tr, va or te, a label and a sentence, separated by tabs"
            )
        rows[SPLITS[fields[0]]].append((number, fields[1], fields[-1]))
    classes = sorted({label for _, label, _ in rows["train"]})
    numbers = {name: number for number, name in enumerate(classes)}
    parts = {}
    for split, expected in ROWS.items():
        _check(f"{path}, {split}", rows[split], numbers, expected if check_rows else None)
        labels = np.array([numbers[label] for _, label, _ in rows[split]])
        texts = [text for _, _, text in rows[split]]
        parts[split] = LabelledTexts(path.stem, split, texts, None, labels, tuple(classes), source=str(path))
    return parts


def _check(
    where: str, rows: list[tuple[int, str, str]], numbers: Mapping[str, int], expected: int | None
) -> None:
    if not rows or (expected is not None and len(rows) != expected):
        wanted = "some" if expected is None else f"{expected:,}"
        raise InputError(f"{where} has {len(rows):,} rows instead of {wanted}", _HINT)
    for number, label, _ in rows:
        if label not in numbers:
            raise InputError(
                f"{where}, line {number}: the label {label!r} does not occur in the training rows", _HINT
            )
