"""Hard negatives for pairs that have none, among any number of candidates, and where these come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentemb._uris import local_path
from sentemb.data.labelled import LabelledTexts, text_key
from sentemb.data.pairs import NAMES, Triple, paraphrase_components
from sentemb.data.stored_texts import first_places, spill_to_disk
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role, normalised
from sentemb.encoding.nearest import NOTHING, Hits, merged, rows_of_block
from sentemb.encoding.shards import ShardFolder, is_shard_folder
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.search.building import shard_documents
from sentemb.search.documents import ChunkedDocument, Document, Numbers
from sentemb.search.folder import is_index
from sentemb.search.local import LocalStore
from sentemb.search.store import batches

_AT_ONCE = 16_384  # texts
_SPARE = 100  # further candidates per anchor at most, for those that turn out to be known positives


Stored = ShardFolder | LocalStore
"""A folder of `sentemb encode`, or an index folder: any number of texts with a vector for each."""


@dataclass(frozen=True)
class MinedCounts:
    """Counts of mined triples and of skipped candidates.

    Attributes:
        pairs: Unique pairs.
        triples: Triples made from these pairs.
        without: Pairs without a negative, which do not occur in any triple.
        known: Candidates skipped because pairs connect them to the anchor through other texts.
    """

    pairs: int
    triples: int
    without: int
    known: int

    def __str__(self) -> str:
        return (
            f"{self.triples:,} triples from {self.pairs:,} pairs; {self.without:,} pairs without a hard "
            f"negative, {self.known:,} candidates skipped as known positives"
        )


def mine_negatives(
    pairs: Sequence[tuple[str, str]],
    encoder: TextEncoder,
    *,
    corpus: Sequence[str] | Stored = (),
    count: int = 1,
    margin: float = 0.05,
    skip: int = 0,
) -> tuple[list[Triple], MinedCounts]:
    """Find hard negatives for each pair: the texts nearest to its anchor that are not its positives.

    Candidates within `margin` of the positive's cosine are skipped, since they are likely to be unlabelled
    positives (NV-Retriever, arXiv 2407.15831, section 4: TopK-PercPos with 95 %). If an anchor has several
    positives, the farthest one counts. Texts that pairs connect to the anchor are skipped, too: given (a, b)
    and (b, c), c is not a negative of a. The search is exact. Memory holds the vectors of the pairs and the
    candidates found for each, regardless of the size of the corpus.

    Args:
        pairs: Anchors and positives; all texts paired with an anchor are its positives.
        encoder: Ranks the candidates; of `load_encoder`. Anchors are encoded as queries, all other texts as
            documents.
        corpus: Further candidates in addition to all positives: texts, or what `pool_at` opens.
        count: Number of negatives for each pair, each in a separate triple; 1 as in SimCSE's triples.
        margin: Minimum difference between the cosines of the positive and of a negative, as a share of the
            positive's.
        skip: Number of nearest candidates of each anchor to skip.

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
    return _mine(pairs, encoder, corpus, count, margin, skip)


def _mine(
    pairs: Sequence[tuple[str, str]],
    encoder: TextEncoder,
    corpus: Sequence[str] | Stored,
    count: int,
    margin: float,
    skip: int,
) -> tuple[list[Triple], MinedCounts]:
    positives_of: dict[str, list[str]] = {}
    for anchor, positive in dict.fromkeys(pairs):
        positives_of.setdefault(anchor, []).append(positive)
    positives = list(dict.fromkeys(positive for own in positives_of.values() for positive in own))
    unique = [(anchor, positive) for anchor, own in positives_of.items() for positive in own]
    components, largest = _components(unique)
    texts = spill_to_disk(_texts(corpus))
    # Neither positives nor earlier texts of the corpus.
    known = {*positives}
    is_new = first_places(texts) == np.arange(len(texts))
    is_new &= np.fromiter((text not in known for text in texts), dtype=np.bool_, count=len(texts))
    total = len(positives) + int(is_new.sum())
    if skip >= total:
        raise InputError(f"skip is {skip:,}, but there are only {total:,} candidates", "lower skip")
    # An anchor and its own positive are not candidates.
    depth = skip + count + min(max(0, largest - 2), _SPARE)
    more = _new_vectors(corpus, texts, encoder, is_new)
    triples: list[Triple] = []
    without = skipped = 0
    found = _nearest(positives_of, positives, encoder, margin, depth, more)
    for (anchor, own), hits in zip(positives_of.items(), found, strict=True):
        component = components.get(text_key(anchor))
        numbers = hits.documents[skip:].tolist()
        nearest = (positives[one] if one < len(positives) else texts[one - len(positives)] for one in numbers)
        negatives: list[str] = []
        for text in nearest:
            if len(negatives) == count:
                break
            if components.get(text_key(text)) == component:
                skipped += len(own)
            else:
                negatives.append(text)
        triples += [Triple(anchor, positive, text) for positive in own for text in negatives]
        without += 0 if negatives else len(own)
    return triples, MinedCounts(len(unique), len(triples), without, skipped)


def _nearest(
    positives_of: Mapping[str, Sequence[str]],
    positives: Sequence[str],
    encoder: TextEncoder,
    margin: float,
    depth: int,
    more: Iterable[tuple[Numbers, Vectors]],
) -> list[Hits]:
    """Return the nearest candidates of each anchor within the limit of its margin.

    They are the positives, and those whose places and vectors (n, dim) are in `more`, counted after these.
    """
    rows = {text: row for row, text in enumerate(positives)}
    own = [np.array([rows[one] for one in some]) for some in positives_of.values()]
    anchors = normalised(for_role(encoder, "query").encode(list(positives_of)))
    vectors = normalised(for_role(encoder, "document").encode(positives))
    cosines = [(vectors[some] @ anchor).min() for some, anchor in zip(own, anchors, strict=True)]
    most = np.array([least - abs(least) * margin for least in cosines], dtype=np.float32)
    blocks = (
        np.arange(start, min(start + _AT_ONCE, len(vectors))) for start in range(0, len(vectors), _AT_ONCE)
    )
    pieces = ((len(vectors) + places, normalised(some)) for places, some in more)
    found = [NOTHING for _ in own]
    for numbers, some in chain(((block, vectors[block]) for block in blocks), pieces):
        size = rows_of_block(len(numbers))
        for start in range(0, len(own), size):
            scores = anchors[start : start + size] @ some.T  # (anchors, n)
            scores[scores > most[start : start + size, None]] = -np.inf
            for anchor, row in enumerate(scores, start):
                if numbers[0] <= own[anchor].max() and own[anchor].min() <= numbers[-1]:
                    row[np.isin(numbers, own[anchor])] = -np.inf
                found[anchor] = merged(found[anchor], numbers, row, None, depth)
    return found


def pool_at(path: str | Path) -> Stored | None:
    """Open a folder of `sentemb encode` or an index folder; return None of anything else.

    Raises:
        InputError: The folder is damaged or not finished.
    """
    if is_shard_folder(path):
        shards = ShardFolder(path)
        shards.verify()
        return shards
    folder = local_path(path)
    return LocalStore(folder, verify=True) if is_index(folder) else None


def documents_at(path: str | Path) -> Iterator[Document] | None:
    """Yield the documents in a folder of `sentemb encode` or in an index folder; None of anything else."""
    stored = pool_at(path)
    if stored is None:
        return None
    if isinstance(stored, ShardFolder):
        return shard_documents(stored)
    return (chunked.document for chunked in _chunked(stored))


def _chunked(store: LocalStore) -> Iterator[ChunkedDocument]:
    with store.snapshot() as snapshot:
        yield from snapshot.rows()


def _texts(corpus: Sequence[str] | Stored) -> Iterator[str]:
    """Yield the texts of a corpus; of documents in chunks these."""
    if isinstance(corpus, ShardFolder):
        return (text for batch in corpus.batches() for text in batch.texts)
    if isinstance(corpus, LocalStore):
        return (text for chunked in _chunked(corpus) for text in chunked.texts)
    return iter(corpus)


def _new_vectors(
    corpus: Sequence[str] | Stored, texts: Sequence[str], encoder: TextEncoder, is_new: NDArray[np.bool_]
) -> Iterator[tuple[Numbers, Vectors]]:
    """Yield the places of the new texts and their vectors, some at a time; stored ones are not encoded."""
    if not isinstance(corpus, Stored):
        places = np.flatnonzero(is_new)
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            yield some, for_role(encoder, "document").encode([texts[place] for place in some.tolist()])
        return
    start = 0
    for vectors in _stored_vectors(corpus, encoder):
        rows = np.flatnonzero(is_new[start : start + len(vectors)])
        if len(rows):
            yield start + rows, vectors[rows]
        start += len(vectors)


def _stored_vectors(corpus: Stored, encoder: TextEncoder) -> Iterator[Vectors]:
    """Yield the vectors of a corpus, some at a time, if an encoder makes the same."""
    if isinstance(corpus, ShardFolder):
        corpus.check_encoder(encoder)
        yield from (batch.vectors for batch in corpus.batches(_AT_ONCE))
        return
    with corpus.snapshot() as snapshot:
        corpus.encoder = lambda: snapshot.manifest.encoder.load(encoder, corpus.folder)
        corpus.encoder()
        yield from (vectors for _, vectors in batches(snapshot))


def _components(pairs: list[tuple[str, str]]) -> tuple[dict[str, int], int]:
    """Return which texts the pairs join, directly or by way of others, and how many at most."""
    first, second = (list(column) for column in zip(*pairs, strict=True))
    data = LabelledTexts("pairs", "train", first, second, np.ones(len(pairs), dtype=np.int64), NAMES)
    keys = [key for row in data.text_keys() for key in row]
    components = dict(zip(keys, paraphrase_components(data).ravel().tolist(), strict=True))
    return components, int(np.bincount(list(components.values())).max())
