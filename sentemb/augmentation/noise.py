"""Noisy copies of labelled rows: back-translations sampled at growing temperatures (SCL, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sentemb.augmentation.back_translation import (
    BackTranslationCounts,
    back_translate,
    count_back_translations,
)
from sentemb.augmentation.translator import Progress, Translator
from sentemb.data.augmented import RATIO
from sentemb.errors import InputError


class NoisyCopies(NamedTuple):
    """Copies of rows at one temperature, in the columns that `sentemb.data.read_copies` takes.

    `incomplete` rows have fewer copies than requested, because a text of a copy came back empty.
    """

    temperature: float
    columns: dict[str, list[int] | list[float] | list[str]]
    counts: BackTranslationCounts
    incomplete: int


def noisy_copies(
    rows: Mapping[int, Sequence[str]],
    forward: Translator,
    backward: Translator,
    *,
    temperature: float,
    copies: int = RATIO,
    cache: Path | None = None,
    batch_size: int = 16,
    progress: Progress | None = None,
) -> NoisyCopies:
    """Make copies of rows, each a separate sample; both texts of a pair are translated.

    Args:
        rows: The text, or the two texts, of each row by its number in the training split.
        forward: To the other language, sampling at the temperature.
        backward: From it, the same.
        temperature: What the copies are marked with.
        copies: Of each row; 3 in the paper. They may be equal to each other or to the row.
        cache: As for `back_translate`, like the other arguments.
        batch_size: Texts that are translated together.
        progress: Called after every batch.

    Example:
        >>> copies = noisy_copies(rows, to_german, to_english, temperature=0.9)  # doctest: +SKIP
    """
    if copies < 1:
        raise InputError(f"copies is {copies}", "use 1 or more")
    texts = [text for row in rows.values() for text in row]
    draws = [
        back_translate(
            texts, forward, backward, cache=cache, draw=draw, batch_size=batch_size, progress=progress
        )
        for draw in range(copies)
    ]
    found: list[tuple[int, list[str]]] = []
    incomplete, place = 0, 0
    for number, row in rows.items():
        made = [translations[place : place + len(row)] for translations in draws]
        kept = [texts_of_copy for texts_of_copy in made if all(texts_of_copy)]
        incomplete += len(kept) < copies
        found += [(number, texts_of_copy) for texts_of_copy in kept]
        place += len(row)
    columns: dict[str, list[int] | list[float] | list[str]] = {
        "index": [number for number, _ in found],
        "temperature": [temperature] * len(found),
        "augmented": [texts_of_copy[0] for _, texts_of_copy in found],
    }
    if any(len(row) > 1 for row in rows.values()):
        columns["augmented_pair"] = [texts_of_copy[1] for _, texts_of_copy in found]
    counts = count_back_translations(texts * copies, [text for draw in draws for text in draw])
    return NoisyCopies(temperature, columns, counts, incomplete)
