"""Back-translation of every unique text once, with a cache on disk, and noisy copies (SCL, section 4.2)."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sentemb.data.sampling import RATIO
from sentemb.errors import InputError

PAIR_COLUMNS = ("text", "back_translation")
"""The columns that the recipes `bt` and `bt-sg-opt` train on."""
Progress = Callable[[str, int, int], None]
"""Takes the translator's name, the number of translated texts and the number of all texts."""
_WINDOW = 64  # batches whose texts are sorted by length together
_SCHEMA = """CREATE TABLE IF NOT EXISTS translations
(draw INTEGER, text TEXT, translation TEXT, PRIMARY KEY (draw, text)) WITHOUT ROWID"""


class Translator(Protocol):
    """From texts to their translations.

    Attributes:
        name: What messages call it.
        fingerprint: A name for what it computes, which differs if some translation may differ.

    Example:
        >>> class Shouting:
        ...     name = "shouting"
        ...     fingerprint = "shouting 1"
        ...
        ...     def __call__(self, texts, *, draw=0):
        ...         return [text.upper() for text in texts]
        ...
        ...     def describe(self):
        ...         return {"name": self.name}
        >>> Shouting()(["a cat"])
        ['A CAT']
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    def __call__(self, texts: Sequence[str], *, draw: int = 0) -> list[str]: ...  # noqa: D102

    def describe(self) -> dict[str, Any]:
        """Describe for a manifest which translator this is and how it decodes, as JSON values."""


def store_path(folder: Path, translator: Translator) -> Path:
    """Return the file of a translator's finished translations in a cache folder."""
    return folder / f"{hashlib.sha256(translator.fingerprint.encode()).hexdigest()[:16]}.sqlite"


@contextmanager
def open_store(folder: Path, translator: Translator) -> Iterator[sqlite3.Connection]:
    """Open a translator's finished translations; several processes may add to them."""
    path = store_path(folder, translator)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60.0)) as database:
            database.execute(_SCHEMA)
            yield database
    except sqlite3.DatabaseError as error:
        hint = "delete the file; its texts are then translated again"
        raise InputError(f"{path} cannot be used: {error}", hint) from None


class BackTranslationCounts(NamedTuple):
    """Numbers of texts, of unique ones, and of those that were blank, came back empty or unchanged."""

    texts: int
    unique: int
    blank: int
    empty: int
    identical: int

    def __str__(self) -> str:
        text = f"{self.texts:,} texts, {self.unique:,} unique; unchanged by translation: {self.identical:,}"
        some = {"empty translations": self.empty, "blank texts": self.blank}
        return text + "".join(f"; {name}: {count:,}" for name, count in some.items() if count)


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
        known: dict[str, str] = {}
        with nullcontext() if cache is None else open_store(cache, translator) as store:
            for batch in _batches(wanted, batch_size):
                known |= _translate(batch, translator, store, draw)
                if progress is not None:
                    progress(translator.name, len(known), len(wanted))
        results = [known.get(text, "") for text in results]
    return results


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield batches of similar length. They depend on the texts alone, so that a cache has whole batches."""
    for start in range(0, len(texts), _WINDOW * size):
        window = sorted(texts[start : start + _WINDOW * size], key=len)
        yield from (window[first : first + size] for first in range(0, len(window), size))


def _translate(
    texts: Sequence[str], translator: Translator, store: sqlite3.Connection | None, draw: int
) -> dict[str, str]:
    """Return the translations of a batch; new ones are stored in one transaction."""
    query = "SELECT translation FROM translations WHERE draw = ? AND text = ?"
    found = {text: store.execute(query, (draw, text)).fetchone() for text in texts} if store else {}
    known = {text: row[0] for text, row in found.items() if row is not None}
    if missing := [text for text in texts if text not in known]:
        answers = translator(missing, draw=draw)
        if len(answers) != len(missing) or not all(isinstance(answer, str) for answer in answers):
            message = f"{translator.name} did not return one translation per text ({len(missing)} texts)"
            raise InputError(message, "a translator must return a list with one string per text")
        known |= zip(missing, answers, strict=True)
        if store is not None:
            with store:
                rows = ((draw, text, known[text]) for text in missing)
                store.executemany("INSERT OR REPLACE INTO translations VALUES (?, ?, ?)", rows)
    return known


def count_back_translations(texts: Sequence[str], translations: Sequence[str]) -> BackTranslationCounts:
    """Count what `back_translate` made of texts, including duplicates; white space is not a change."""
    pairs = [(text.split(), back.split()) for text, back in zip(texts, translations, strict=True)]
    return BackTranslationCounts(
        texts=len(pairs),
        unique=len(set(texts)),
        blank=sum(not text for text, _ in pairs),
        empty=sum(bool(text) and not back for text, back in pairs),
        identical=sum(bool(text) and text == back for text, back in pairs),
    )


class NoisyCopies(NamedTuple):
    """Copies of rows at one temperature, in the columns that `sentemb.data.read_copies` takes."""

    temperature: float
    columns: dict[str, list[Any]]
    counts: BackTranslationCounts
    incomplete: int  # rows with fewer copies than requested, because a text of a copy came back empty


def noisy_copies(
    rows: Mapping[int, Sequence[str]],
    forward: Translator,
    backward: Translator,
    *,
    temperature: float,
    copies: int = RATIO,
    **options: Any,
) -> NoisyCopies:
    """Make copies of rows, each a separate sample at a temperature, with which they are marked.

    `rows` are the text, or the two texts, of each row by its number in the training split; both texts of a
    pair are translated. Copies may be equal to each other or to the row.
    """
    if copies < 1:
        raise InputError(f"copies is {copies}", "use 1 or more")
    texts = [text for row in rows.values() for text in row]
    draws = [back_translate(texts, forward, backward, draw=draw, **options) for draw in range(copies)]
    columns: dict[str, list[Any]] = {"index": [], "temperature": [], "augmented": []}
    if any(len(row) > 1 for row in rows.values()):
        columns["augmented_pair"] = []
    incomplete = place = 0
    for number, row in rows.items():
        made = [translations[place : place + len(row)] for translations in draws]
        kept = [copy for copy in made if all(copy)]
        for copy in kept:
            for name, value in zip(columns, (number, temperature, *copy), strict=True):
                columns[name].append(value)
        incomplete += len(kept) < copies
        place += len(row)
    counts = count_back_translations(texts * copies, [text for draw in draws for text in draw])
    return NoisyCopies(temperature, columns, counts, incomplete)
