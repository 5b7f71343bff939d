"""Texts that two splits have in common, which make a test score say less than it seems to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sentemb.data.labelled import LabelledTexts


@dataclass(frozen=True)
class Overlap:
    """What one split has in common with another.

    Attributes:
        train: Name of the split to train on.
        test: Name of the split to test on.
        rows: Rows of the test split.
        repeated: Those whose text, or pair of texts, is in the training split too.
        contradicted: Those of them that have another label there, wherever they stand.
        examples: The first few repeated texts.
    """

    train: str
    test: str
    rows: int
    repeated: int
    contradicted: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        share = 100 * self.repeated / self.rows
        return (
            f"{self.repeated:,} of {self.rows:,} rows of {self.test} ({share:.1f} %) are in {self.train} "
            f"too, {self.contradicted:,} of them only with another label"
        )


def find_overlap(train: LabelledTexts, test: LabelledTexts, *, examples: int = 3) -> Overlap:
    """Count the rows of a split that another split has too.

    Texts are the same if they differ in letter case or white space only. A pair counts as one text; the same
    pair the other way round does not.

    Args:
        train: The split to train on.
        test: The split to test on.
        examples: How many repeated texts to keep.

    Returns:
        The counts.
    """
    labels: dict[tuple[str, ...], set[Any]] = {}
    for key, label in zip(text_keys(train), train.labels.tolist(), strict=True):
        labels.setdefault(key, set()).add(label)
    repeated = [
        (row, label in labels[key])
        for row, (key, label) in enumerate(zip(text_keys(test), test.labels.tolist(), strict=True))
        if key in labels
    ]
    return Overlap(
        train=f"{train.name} {train.split}",
        test=f"{test.name} {test.split}",
        rows=len(test),
        repeated=len(repeated),
        contradicted=sum(not same for _, same in repeated),
        examples=tuple(test.texts[row] for row, _ in repeated[:examples]),
    )


def text_keys(data: LabelledTexts) -> list[tuple[str, ...]]:
    """What makes two rows the same text, or pair of texts: all but letter case and white space."""
    columns = [data.texts, *([data.pairs] if data.pairs else [])]
    return [tuple(" ".join(text.split()).casefold() for text in row) for row in zip(*columns, strict=True)]
