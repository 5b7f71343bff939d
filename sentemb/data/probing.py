"""SentEval's probing tasks (Conneau et al., 2018): properties of a sentence that its vector may reveal."""

from __future__ import annotations

import os
from collections import defaultdict

from sentemb.data.labelled import LabelledTexts, number_labels
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
    texts: defaultdict[str, list[str]] = defaultdict(list)
    labels: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for number, line in read_lines(path):
        split, *fields = line.rstrip().split("\t")
        if len(fields) < 2 or split not in SPLITS:
            raise InputError(
                f"{path}, line {number}: expected tr, va or te, a label and a sentence, separated by tabs"
            )
        texts[SPLITS[split]].append(fields[-1])
        labels[SPLITS[split]].append((f"{path}, line {number}", fields[0]))
    classes = tuple(sorted({label for _, label in labels["train"]}))
    parts = {}
    for split, expected in ROWS.items():
        rows = len(texts[split])
        if not rows or (check_rows and rows != expected):
            needed = f"{expected:,}" if check_rows else "some"
            raise InputError(f"{path}, {split} has {rows:,} rows instead of {needed}", _HINT)
        numbers = number_labels(labels[split], classes, spellings=classes, where="the training rows")
        parts[split] = LabelledTexts(path.stem, split, texts[split], None, numbers, classes, source=str(path))
    return parts
