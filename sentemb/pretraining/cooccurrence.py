"""Token vectors from co-occurrence counts: a head start for the embeddings of a new encoder.

Positive pointwise mutual information of neighbouring tokens, factored by a truncated singular value
decomposition (Levy and Goldberg, Neural Word Embedding as Implicit Matrix Factorization, NeurIPS 2014; Levy,
Goldberg and Dagan, TACL 2015, for the smoothed contexts and the square root of the singular values).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from sentemb.errors import InputError
from sentemb.pretraining.store import TokenStore

_SMOOTHING = 0.75  # of the context distribution (TACL 2015, section 3.1)
_CHUNK = 4_000_000


def count_cooccurrences(store: TokenStore, vocabulary_size: int, *, window: int = 8) -> sparse.csr_matrix:
    """Count how often two tokens stand near each other inside a document, nearer ones for more."""
    shape = (vocabulary_size, vocabulary_size)
    counts = sparse.csr_matrix(shape, dtype=np.float32)
    documents = np.zeros(len(store.tokens), dtype=np.int32)
    documents[store.documents[1:-1]] = 1
    documents = np.cumsum(documents, dtype=np.int32)
    for start in range(0, len(store.tokens), _CHUNK):
        for distance in range(1, window + 1):
            stop = min(start + _CHUNK, len(store.tokens) - distance)
            if stop <= start:
                continue
            left, right = slice(start, stop), slice(start + distance, stop + distance)
            near = documents[left] == documents[right]
            pairs = (store.tokens[left][near], store.tokens[right][near])
            weights = np.full(len(pairs[0]), 1 / distance, dtype=np.float32)
            counts = counts + sparse.coo_matrix((weights, pairs), shape=shape).tocsr()
    return (counts + counts.T).tocsr()


def positive_pmi(counts: sparse.csr_matrix, *, least: float = 0.0) -> sparse.csr_matrix:
    """Positive pointwise mutual information with smoothed contexts."""
    table = counts.tocoo()
    totals = np.asarray(counts.sum(axis=1)).ravel()  # (vocabulary,)
    smoothed = totals**_SMOOTHING
    with np.errstate(divide="ignore"):
        row = np.log(totals / totals.sum())
        column = np.log(smoothed / smoothed.sum())
    value = np.log(table.data / totals.sum()) - row[table.row] - column[table.col]
    keep = (value > 0) & (table.data >= least)
    return sparse.csr_matrix(
        (value[keep].astype(np.float32), (table.row[keep], table.col[keep])), shape=counts.shape
    )


def cooccurrence_embeddings(
    store: TokenStore, vocabulary_size: int, width: int, *, window: int = 8, seed: int = 0
) -> np.ndarray:
    """Vectors of all tokens, of unit length; a token that never occurs has the zero vector."""
    information = positive_pmi(count_cooccurrences(store, vocabulary_size, window=window), least=1.0)
    if np.count_nonzero(information.getnnz(axis=1)) <= width:
        raise InputError(
            f"the corpus is too small for co-occurrence vectors of {width} dimensions",
            "use more text, or --initialise random",
        )
    left, values, _ = randomized_svd(information, width, n_iter=3, random_state=seed)
    vectors = left * np.sqrt(values)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(
        np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0), dtype=np.float32
    )


def token_frequencies(store: TokenStore, vocabulary_size: int) -> np.ndarray:
    """Relative frequency of every token, with one added to each count so that none is zero."""
    counts = np.bincount(store.tokens, minlength=vocabulary_size) + 1.0
    return np.asarray(counts / counts.sum())
