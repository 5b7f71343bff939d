"""English sentences and graded pairs that come with the package, for a first run without any download.

They were written for this project and are under its licence, Apache-2.0. One annotator gave the scores, on
the scale of the STS tasks: they show whether training went the right way and are a smoke test, no benchmark.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np

from sentemb.data.files import TEXT_COLUMN, read_file
from sentemb.data.sts import ScoredPairs, Subset

_FOLDER = Path(__file__).with_name("bundled")


def bundled_pairs() -> ScoredPairs:
    """Sentence pairs of thirteen domains, graded from 0 (unrelated) to 5 (the same meaning).

    Paraphrases that share few words and contradictions that share most of them are frequent, so that counting
    common words does not solve it.
    """
    rows = [row.values for row in read_file(bundled_pairs_file())]
    subsets: list[Subset] = []
    for domain, members in groupby(row["domain"] for row in rows):
        start = subsets[-1].stop if subsets else 0
        subsets.append(Subset(domain, start, start + len(list(members))))
    return ScoredPairs(
        name="sentemb-pairs",
        split="test",
        first=[row["sentence1"] for row in rows],
        second=[row["sentence2"] for row in rows],
        gold=np.array([float(row["score"]) for row in rows], dtype=np.float64),
        subsets=tuple(subsets),
        source="sentemb/data/bundled/pairs.tsv",
    )


def bundled_sentences() -> list[str]:
    """Unlabelled sentences over the same domains, for self-guided and unsupervised training."""
    return [row.values[TEXT_COLUMN] for row in read_file(bundled_sentences_file())]


def bundled_pairs_file() -> Path:
    """The file of the pairs, for what takes a file, such as the dev set of a training."""
    return _FOLDER / "pairs.tsv"


def bundled_sentences_file() -> Path:
    """The file of the sentences, for what takes a file, such as the data of a training."""
    return _FOLDER / "sentences.txt"
