"""Hard negatives for pairs that have none, by sentence-transformers' mining over an encoder of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives
from torch import Tensor

from sentemb.data.labelled import LabelledTexts, text_key
from sentemb.data.nli import TRIPLE_COLUMNS, Triple
from sentemb.data.paraphrases import NAMES, paraphrase_components
from sentemb.encoding.encoder import TextEncoder, Vectors, normalised
from sentemb.errors import InputError
from sentemb.limits import refuse_above

_QUERIES = 512  # compared with the whole corpus at a time
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
            f"{self.triples:,} triples of {self.pairs:,} pairs; {self.without:,} pairs have no negative, "
            f"{self.known:,} candidates were left out as known positives"
        )


def mine_negatives(
    pairs: Sequence[tuple[str, str]],
    encoder: TextEncoder,
    *,
    corpus: Sequence[str] = (),
    count: int = 1,
    margin: float = 0.05,
    skip: int = 0,
) -> tuple[list[Triple], MinedCounts]:
    """Find for each pair the texts that are nearest to its anchor without being its positives.

    What comes within `margin` of the positive's cosine is skipped, since it is likely to be a positive that
    nobody labelled (NV-Retriever, arXiv 2407.15831, section 4: TopK-PercPos with 95 %). So is what the pairs
    themselves say of other texts: of (a, b) and (b, c), c is no negative of a.

    Args:
        pairs: Anchors and positives; texts of the same anchor are all its positives.
        encoder: Ranks the candidates; of `load_encoder`.
        corpus: Further candidates beside all positives.
        count: Negatives for each pair, each in a triple of its own; 1 as in SimCSE's triples.
        margin: Share of the positive's cosine by which a negative's is lower at least.
        skip: The nearest so many candidates of each anchor that are not taken.

    Returns:
        The triples in the order of the anchors, nearest negatives first, and the counts.

    Raises:
        InputError: No pairs, a blank text, or an option out of range.
    """
    _check(pairs, count=count, margin=margin, skip=skip)
    unique = list(dict.fromkeys(pairs))
    candidates = list(dict.fromkeys([*(positive for _, positive in unique), *corpus]))
    if skip >= len(candidates):
        raise InputError(f"skip is {skip:,}, and there are {len(candidates):,} candidates", "lower it")
    component = _Components(unique)
    spare = min(max(0, component.largest - 2), _SPARE)  # an anchor and its own positive are no candidates
    mined = mine_hard_negatives(
        Dataset.from_dict(dict(zip(TRIPLE_COLUMNS, zip(*unique, strict=True), strict=False))),
        _Ranker(encoder),  # it has what the function asks for
        corpus=candidates,
        range_min=skip,
        relative_margin=margin,
        num_negatives=count + spare,
        output_format="triplet",
        faiss_batch_size=_QUERIES,
        verbose=False,
    )
    taken: dict[tuple[str, str], int] = dict.fromkeys(unique, 0)
    triples: list[Triple] = []
    known = 0
    for row in mined:
        anchor, positive, negative = row.values()
        if taken[anchor, positive] == count:
            continue
        if component.joins(anchor, negative):
            known += 1
            continue
        taken[anchor, positive] += 1
        triples.append(Triple(anchor, positive, negative))
    without = sum(not found for found in taken.values())
    return triples, MinedCounts(pairs=len(unique), triples=len(triples), without=without, known=known)


class _Ranker:
    """What `mine_hard_negatives` asks of a SentenceTransformer."""

    device = torch.device("cpu")

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    def encode_query(self, texts: list[str], **_options: Any) -> Vectors:  # prompts, pools, progress: unused
        return normalised(self._encoder.encode(texts))

    encode_document = encode_query

    def similarity(self, queries: Vectors, corpus: Tensor) -> Tensor:
        return torch.from_numpy(queries) @ corpus.T  # (q, n)

    def similarity_pairwise(self, queries: Vectors, positives: Tensor) -> Tensor:
        return (torch.from_numpy(queries) * positives).sum(1)  # (q,)


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
            raise InputError(f"pair {row} has a blank text", "remove the pair or fill it in")
    if count < 1:
        raise InputError(f"count is {count}", "ask for one negative or more")
    refuse_above("negatives", count, f"count={count:,}")
    if not 0 <= margin < 1:
        raise InputError(f"margin is {margin:g}", "give a share from 0 to below 1")
    if skip < 0:
        raise InputError(f"skip is {skip}", "give 0 or more")
