"""English text that comes with the package, for a first run without a download.

Written for this project, under its licence. One annotator gave the scores: a smoke test, no benchmark.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from sentemb.data.files import read_file
from sentemb.data.sts import ScoredPairs, Subset, read_scored_pairs

_FOLDER = Path(__file__).with_name("bundled")
BUNDLED_PAIRS = "sentemb-pairs"
"""Name of the bundled pairs, as in `train --dev sentemb-pairs`."""


class Question(NamedTuple):
    """A question about the standard library, with the ids of `stdlib_documents` that answer it.

    Questions of `test` were not looked at while documents and weights were chosen.
    """

    text: str
    answers: tuple[str, ...]
    split: Literal["dev", "test"]


def bundled_pairs() -> ScoredPairs:
    """Read sentence pairs of thirteen domains, graded from 0 (unrelated) to 5 (the same meaning)."""
    pairs = read_scored_pairs(bundled_pairs_file(), name=BUNDLED_PAIRS, split="test")
    subsets: list[Subset] = []
    for domain, members in groupby(row.values["domain"] for row in read_file(bundled_pairs_file())):
        start = subsets[-1].stop if subsets else 0
        subsets.append(Subset(domain, start, start + len(list(members))))
    return replace(pairs, subsets=tuple(subsets), source="sentemb/data/bundled/pairs.tsv")


def bundled_sentences() -> list[str]:
    """Read unlabelled sentences of the same domains, for self-guided and unsupervised training."""
    return [row.values["text"] for row in read_file(bundled_sentences_file())]


def bundled_questions() -> list[Question]:
    """Read plain questions about the standard library, written before anything was searched for."""
    rows = map(json.loads, (_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    return [Question(row["question"], tuple(row["answers"]), row["split"]) for row in rows]


def bundled_uses() -> dict[str, str]:
    """Read what people want when they use names of the standard library, by qualified name."""
    return {row.values["name"]: row.values["uses"] for row in read_file(_FOLDER / "uses.tsv")}


def bundled_pairs_file() -> Path:
    """Return the file of the pairs, such as for the dev set of a training."""
    return _FOLDER / "pairs.tsv"


def bundled_sentences_file() -> Path:
    """Return the file of the sentences, such as for the data of a training."""
    return _FOLDER / "sentences.txt"
