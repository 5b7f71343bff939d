"""Hard negatives for pairs that have none, among any number of candidates."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sentemb.data.labelled import LabelledTexts, text_key
from sentemb.data.paraphrases import NAMES, Triple, paraphrase_components
from sentemb.data.stored_texts import first_places, spill_to_disk
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role, normalised
from sentemb.encoding.nearest import NOTHING, merged, rows_of_block
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.search.pool import Pool, Rows, TextPool

_AT_ONCE = 16_384  # positives
_SPARE = 100  # further candidates per anchor at most, for those that turn out to be known positives


@dataclass(frozen=True)
class MinedCounts:
    """What mining found.

    Attributes:
        pairs: Unique pairs.
        triples: Triples made of them.
        without: Pairs for which there was no negative, which are in no triple.
        known: Candidates left out because pairs join them to the anchor by way of other texts.
    """

    pairs: int
    triples: int
    without: int
    known: int

    def __str__(self) -> str:
        return (
            f"{self.triples:,} triples from {self.pairs:,} pairs; {self.without:,} pairs without a hard "
            "negative, "
            f"{self.known:,} candidates skipped as known positives"
        )


def mine_negatives(
    pairs: Sequence[tuple[str, str]],
    encoder: TextEncoder,
    *,
    corpus: Sequence[str] | Pool = (),
    count: int = 1,
    margin: float = 0.05,
    skip: int = 0,
) -> tuple[list[Triple], MinedCounts]:
    """Find for each pair the texts that are nearest to its anchor without being its positives.

    What comes within `margin` of the positive's cosine is skipped, since it is likely to be a positive that
    nobody labelled (NV-Retriever, arXiv 2407.15831, section 4: TopK-PercPos with 95 %); of an anchor with
    several positives the farthest counts. So is what the pairs themselves say of other texts: of (a, b) and
    (b, c), c is no negative of a. The search is exact. Memory holds the vectors of the pairs and what is
    found for each, however many candidates there are.

    Args:
        pairs: Anchors and positives; texts of the same anchor are all its positives.
        encoder: Ranks the candidates; of `load_encoder`. Anchors are encoded as queries, all other texts as
            documents.
        corpus: Further candidates beside all positives: texts, or what `sentemb.search.pool.pool_at` opens.
        count: Negatives for each pair, each in a triple of its own; 1 as in SimCSE's triples.
        margin: Share of the positive's cosine by which a negative's is lower at least.
        skip: The nearest so many candidates of each anchor that are not taken.

    Returns:
        The triples in the order of the anchors, nearest negatives first, and the counts.

    Raises:
        InputError: No pairs, a blank text, an option out of range, or a corpus of another encoder.

    Example:
        >>> pairs = [("kitten", "a cat sat"), ("engine", "cars drive"), ("wings", "birds fly")]
        >>> triples, counts = mine_negatives(pairs, load_encoder("static-mini"))
        >>> counts.triples
        3
    """
    _check(pairs, count=count, margin=margin, skip=skip)
    pool = TextPool(corpus) if isinstance(corpus, Sequence) else corpus
    positives_of: dict[str, list[str]] = {}
    for anchor, positive in dict.fromkeys(pairs):
        positives_of.setdefault(anchor, []).append(positive)
    positives = list(dict.fromkeys(positive for own in positives_of.values() for positive in own))
    texts = spill_to_disk(pool.texts())
    wanted = _candidates(texts, {*positives})
    total = len(positives) + int(wanted.sum())
    if skip >= total:
        raise InputError(f"skip is {skip:,}, but there are only {total:,} candidates", "lower skip")
    component = _Components([(anchor, one) for anchor, own in positives_of.items() for one in own])
    # An anchor and its own positive are no candidates.
    spare = min(max(0, component.largest - 2), _SPARE)
    search = _Search(positives_of, positives, encoder, margin=margin, depth=skip + count + spare)
    for numbers, vectors in pool.blocks(encoder, wanted):
        search.compare(len(positives) + numbers, normalised(vectors))
    triples: list[Triple] = []
    without = known = 0
    for (anchor, own), hits in zip(positives_of.items(), search.found, strict=True):
        numbers = hits.documents[skip:].tolist()
        nearest = (positives[one] if one < len(positives) else texts[one - len(positives)] for one in numbers)
        taken: list[str] = []
        for text in nearest:
            if len(taken) == count:
                break
            if component.joins(anchor, text):
                known += len(own)
            else:
                taken.append(text)
        triples += [Triple(anchor, positive, negative) for positive in own for negative in taken]
        without += 0 if taken else len(own)
    unique = sum(map(len, positives_of.values()))
    return triples, MinedCounts(pairs=unique, triples=len(triples), without=without, known=known)


def _candidates(texts: Sequence[str], positives: Container[str]) -> NDArray[np.bool_]:
    """Which texts are neither positives nor were there before."""
    new: NDArray[np.bool_] = first_places(texts) == np.arange(len(texts))
    new &= np.fromiter((text not in positives for text in texts), dtype=np.bool_, count=len(texts))
    return new


class _Search:
    """The nearest candidates of each anchor that are no nearer than its margin allows."""

    def __init__(
        self,
        positives_of: Mapping[str, Sequence[str]],
        positives: Sequence[str],
        encoder: TextEncoder,
        *,
        margin: float,
        depth: int,
    ) -> None:
        self._depth = depth
        self._anchors = normalised(for_role(encoder, "query").encode(list(positives_of)))
        vectors = normalised(for_role(encoder, "document").encode(positives))
        rows = {positive: row for row, positive in enumerate(positives)}
        self._own = [np.array([rows[one] for one in own]) for own in positives_of.values()]
        cosines = [
            (vectors[own] @ anchor).min() for own, anchor in zip(self._own, self._anchors, strict=True)
        ]
        self._most = np.array([least - abs(least) * margin for least in cosines], dtype=np.float32)
        self.found = [NOTHING for _ in self._own]
        for start in range(0, len(positives), _AT_ONCE):
            numbers = np.arange(start, min(start + _AT_ONCE, len(positives)))
            self.compare(numbers, vectors[numbers])

    def compare(self, numbers: Rows, vectors: Vectors) -> None:
        """Look at some more candidates, whose vectors (n, dim) have the length 1."""
        size = rows_of_block(len(numbers))
        first, last = int(numbers[0]), int(numbers[-1])
        for start in range(0, len(self._own), size):
            scores = self._anchors[start : start + size] @ vectors.T  # (anchors, n)
            scores[scores > self._most[start : start + size, None]] = -np.inf
            for anchor, row in enumerate(scores, start):
                own = self._own[anchor]
                if first <= own.max() and own.min() <= last:
                    row[np.isin(numbers, own)] = -np.inf
                self.found[anchor] = merged(self.found[anchor], numbers, row, None, self._depth)


class _Components:
    """Which texts the pairs join, directly or by way of others."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        first, second = (list(column) for column in zip(*pairs, strict=True))
        joined = np.ones(len(pairs), dtype=np.int64)
        data = LabelledTexts("pairs", "train", first, second, joined, NAMES)
        keys = [key for row in data.text_keys() for key in row]
        self._of = dict(zip(keys, paraphrase_components(data).ravel().tolist(), strict=True))
        self.largest = int(np.bincount(list(self._of.values())).max())

    def joins(self, one: str, other: str) -> bool:
        first, second = (self._of.get(text_key(text)) for text in (one, other))
        return first is not None and first == second


def _check(pairs: Sequence[tuple[str, str]], *, count: int, margin: float, skip: int) -> None:
    if not pairs:
        raise InputError("there are no pairs to mine negatives for")
    for row, pair in enumerate(pairs, start=1):
        if not all(text.strip() for text in pair):
            raise InputError(f"pair {row} has a blank text", "remove the pair, or fill in the text")
    if count < 1:
        raise InputError(f"count is {count}", "choose 1 or more")
    refuse_above("negatives", count, f"count={count:,}")
    if not 0 <= margin < 1:
        raise InputError(f"margin is {margin:g}", "choose a value from 0 to below 1")
    if skip < 0:
        raise InputError(f"skip is {skip}", "choose 0 or more")
