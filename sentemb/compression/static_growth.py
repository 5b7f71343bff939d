"""Which words and pairs deserve a token vector of their own: those that bring texts nearer to the teacher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from tokenizers import Tokenizer

from sentemb.compression.static_bags import Bags, bags_of
from sentemb.compression.static_vocabulary import new_pieces, text_of, with_pieces
from sentemb.encoding.encoder import Vectors

LEAST = 5
"""Of rarer pieces no vector can be learned."""
_PRIOR = 5.0  # texts against a vector of its own
_LEAST_LENGTH = 1e-6


def grow(
    tokenizer: Tokenizer, table: Vectors, texts: Sequence[str], targets: Vectors, *, size: int
) -> tuple[Tokenizer, Vectors]:
    """Add the pieces that would explain most of what the token vectors do not.

    A new piece starts as the sum of its parts, so that no text's vector changes its direction yet.

    Args:
        tokenizer: The tokenizer.
        table: Its refined token vectors, (tokens, dimension).
        texts: Training texts.
        targets: The teacher's normalised vectors of them, (texts, dimension).
        size: Tokens to reach; fewer where no other piece helps.

    Returns:
        The larger tokenizer and its token vectors.
    """
    counts: Counter[str] = Counter()
    for found in new_pieces(tokenizer, texts):
        counts.update(found)
    pieces = [piece for piece, count in counts.items() if count >= LEAST]
    room = size - tokenizer.get_vocab_size()
    if room <= 0 or not pieces:
        return tokenizer, table
    gain = gains(_incidence(tokenizer, texts, pieces), bags_of(tokenizer, texts), table, targets)
    best = [int(row) for row in np.argsort(-gain, kind="stable")[:room] if gain[row] > 0]
    chosen = {pieces[row]: counts[pieces[row]] for row in best}
    parts = bags_of(tokenizer, [text_of(piece) for piece in chosen])
    larger = with_pieces(tokenizer, chosen, words=sum(len(text.split()) for text in texts))
    return larger, np.concatenate([table, parts.sums(table)])


def gains(incidence: sparse.csr_matrix, bags: Bags, table: Vectors, targets: Vectors) -> NDArray[np.float64]:
    """Estimate how much a vector of its own for each piece would add to the sum of all cosines.

    The square of a mean gradient also counts what is chance; that part is the mean of the squares, and is
    taken away.

    Args:
        incidence: How often each piece is in each text, (texts, pieces).
        bags: The texts in today's tokens.
        table: Today's token vectors.
        targets: The teacher's normalised vectors of the texts.

    Returns:
        One number for each piece, (pieces,), negative where chance explains it.
    """
    sums = bags.sums(table)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _LEAST_LENGTH)
    directions = sums / lengths
    cosines = (directions * targets).sum(axis=1, keepdims=True)
    gradients = (targets - cosines * directions) / lengths  # of each cosine, by the sum of token vectors
    turned = incidence.T.tocsr()
    squares = np.asarray(turned @ (gradients**2).sum(axis=1), dtype=np.float64)
    curvature = np.asarray(turned @ (1 / lengths[:, 0] ** 2), dtype=np.float64)
    both = (np.asarray(turned @ gradients, dtype=np.float64) ** 2).sum(axis=1)
    gain: NDArray[np.float64] = (both - squares) / (curvature + _PRIOR * np.mean(1 / lengths**2))
    return gain


def _incidence(tokenizer: Tokenizer, texts: Sequence[str], pieces: Sequence[str]) -> sparse.csr_matrix:
    places = {piece: place for place, piece in enumerate(pieces)}
    columns: list[int] = []
    starts = [0]
    for found in new_pieces(tokenizer, texts):
        columns += [places[piece] for piece in found if piece in places]
        starts.append(len(columns))
    counted = sparse.csr_matrix(
        (np.ones(len(columns), np.float32), columns, starts), shape=(len(texts), len(pieces))
    )
    counted.sum_duplicates()
    return counted
