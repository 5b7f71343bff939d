"""Back-translation of every unique text once, with a cache on disk, and noisy copies (SCL, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from sentemb.augmentation.translator import Progress, TranslationStore, Translator
from sentemb.data.augmented import RATIO
from sentemb.errors import InputError

PAIR_COLUMNS = ("text", "back_translation")
"""What the recipes `bt` and `bt-sg-opt` train on."""
_WINDOW = 64
"""Batches whose texts are sorted by length together."""


class BackTranslationCounts(NamedTuple):
    """How many texts there were, how many unique, and how many were blank, came back empty or unchanged."""

    texts: int
    unique: int
    blank: int
    empty: int
    identical: int

    def __str__(self) -> str:
        parts = [
            f"{self.texts:,} texts, {self.unique:,} unique",
            f"unchanged by translation: {self.identical:,}",
        ]
        if self.empty:
            parts.append(f"empty translations: {self.empty:,}")
        if self.blank:
            parts.append(f"blank texts: {self.blank:,}")
        return "; ".join(parts)


def back_translate(
    texts: Sequence[str],
    forward: Translator,
    backward: Translator,
    *,
    cache: Path | None = None,
    draw: int = 0,
    batch_size: int = 16,
    progress: Progress | None = None,
) -> list[str]:
    """Translate texts to another language and back; with a cache, an interrupted call resumes.

    Args:
        texts: The texts.
        forward: To the other language.
        backward: From it.
        cache: Folder of the cache, with a file for each translator; None for no cache.
        draw: Number of the sample, for translators that sample.
        batch_size: Texts that are translated together; a killed process loses one batch.
        progress: Called after every batch.

    Returns:
        The back-translation of each text; empty if the text is blank or the translation was empty.

    Raises:
        InputError: The batch size is too small, the cache cannot be used, or a translator does not return one
            translation per text.

    Example:
        >>> to_german, to_english = Seq2SeqTranslator("..."), Seq2SeqTranslator("...")  # doctest: +SKIP
        >>> back_translate(["A cat sat."], to_german, to_english, cache=Path("c"))  # doctest: +SKIP
    """
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}", "use 1 or more")
    results = list(texts)
    for translator in (forward, backward):
        wanted = [text for text in dict.fromkeys(results) if text.strip()]
        known = _translate(wanted, translator, cache, draw=draw, batch_size=batch_size, progress=progress)
        results = [known.get(text, "") for text in results]
    return results


def count_back_translations(texts: Sequence[str], translations: Sequence[str]) -> BackTranslationCounts:
    """Count what `back_translate` made of texts, including duplicates; white space is not a change.

    Example:
        >>> count_back_translations(["a cat", "a dog", ""], ["one cat", "a dog", ""]).identical
        1
    """
    pairs = [(text.split(), back.split()) for text, back in zip(texts, translations, strict=True)]
    return BackTranslationCounts(
        texts=len(pairs),
        unique=len(set(texts)),
        blank=sum(not text for text, _ in pairs),
        empty=sum(bool(text) and not back for text, back in pairs),
        identical=sum(bool(text) and text == back for text, back in pairs),
    )


def _translate(
    texts: Sequence[str],
    translator: Translator,
    cache: Path | None,
    *,
    draw: int,
    batch_size: int,
    progress: Progress | None,
) -> dict[str, str]:
    """Return the translations of unique texts that are not blank, by text."""
    done: dict[str, str] = {}
    opened: AbstractContextManager[TranslationStore | None] = (
        nullcontext() if cache is None else TranslationStore(cache, translator).opened()
    )
    with opened as store:
        for batch in _batches(texts, batch_size):
            done.update({} if store is None else store.find(batch, draw=draw))
            if missing := [text for text in batch if text not in done]:
                new = _translate_batch(translator, missing, draw)
                if store is not None:
                    store.add(missing, new, draw=draw)
                done.update(zip(missing, new, strict=True))
            if progress is not None:
                progress(translator.name, len(done), len(texts))
    return done


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield batches of similar length. They depend on the texts alone, so that a cache has whole batches."""
    for start in range(0, len(texts), _WINDOW * size):
        window = sorted(texts[start : start + _WINDOW * size], key=len)
        yield from (window[first : first + size] for first in range(0, len(window), size))


def _translate_batch(translator: Translator, texts: Sequence[str], draw: int) -> list[str]:
    answers = translator(texts, draw=draw)
    if len(answers) != len(texts) or not all(isinstance(answer, str) for answer in answers):
        raise InputError(
            f"{translator.name} did not return one translation per text ({len(texts)} texts)",
            "a translator must return a list with one string per text",
        )
    return answers


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
