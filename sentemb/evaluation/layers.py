"""The layer map: how well every layer of an encoder, under every pooling, tells which sentences are alike."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sentemb.data.sts import ScoredPairs
from sentemb.encoding.layers import LayerEncoder
from sentemb.evaluation.environment import environment
from sentemb.evaluation.scoring import (
    Similarities,
    UndefinedScoreError,
    checksum_of,
    pair_cosines,
    score_pairs,
)
from sentemb.evaluation.sts import load_sets

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Rows = npt.NDArray[np.intp]

# Bytes of vectors that one step adds; STS-B's 2,500 sentences in all layers of BERT-base would be 300 MB.
_BYTES_AT_ONCE = 2**26
# All cosines of the embedding output at [CLS] are 1 but for rounding, which must not pass for a score.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LayerScores:
    """One set under every layer and pooling."""

    name: str
    split: str
    pairs: int
    checksum: str  # SHA-256 of the pairs
    # Spearman x 100 of the cosines by pooling, one per layer from 0, the embedding output; None where all
    # cosines are equal; the protocol is `all`
    spearman: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, eq=False)
class LayerMap:
    """A model on one or more sets."""

    model: str
    fingerprint: str  # of its transformer with the poolings
    encoder: Mapping[str, Any]  # how vectors were made
    sets: tuple[LayerScores, ...]  # scores by set, in the order asked for
    unique: int  # unique sentences of all sets, each encoded once
    seconds: float  # wall time of encoding and scoring

    def record(self, *, command: Sequence[str] | None = None) -> dict[str, Any]:
        """Everything that decided the numbers, and the numbers."""
        return {
            "suite": "layers",
            "model": self.model,
            "fingerprint": self.fingerprint,
            "measure": "Spearman x 100 of cosines by pooling and layer, protocol all",
            "sets": [vars(scores) | {"spearman": dict(scores.spearman)} for scores in self.sets],
            "unique": self.unique,
            "seconds": self.seconds,
            "encoder": dict(self.encoder),
            **environment({}, command).model_dump(mode="json", exclude={"seconds"}),
        }


def layer_map(
    model: str | Path | SentenceTransformer,
    sets: Sequence[str] = ("stsb",),
    *,
    split: str = "test",
    poolings: Sequence[str] = ("cls", "mean", "max"),
    data_dir: str | Path | None = None,
    device: str | None = None,
    max_length: int | None = None,
    check_rows: bool = True,
) -> LayerMap:
    """Score every layer of a model under every pooling (SG-BERT, figure 1).

    Each unique sentence goes through the model once, whatever the number of layers, poolings and sets.
    """
    pairs = load_sets(sets, split=split, data_dir=data_dir, check_rows=check_rows)
    encoder = LayerEncoder(model, poolings=poolings, device=device, max_length=max_length)
    began = time.perf_counter()
    unique, cosines = _cosines(encoder, pairs)
    return LayerMap(
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        encoder=encoder.describe(),
        sets=tuple(_score(one, values, encoder) for one, values in zip(pairs, cosines, strict=True)),
        unique=unique,
        seconds=time.perf_counter() - began,
    )


def _score(pairs: ScoredPairs, cosines: Similarities, encoder: LayerEncoder) -> LayerScores:
    """Score one set; cosines (layers, poolings, pairs)."""
    scores = [[_spearman(pairs, values) for values in layer] for layer in cosines]
    if all(score is None for layer in scores for score in layer):
        raise UndefinedScoreError(
            f"{pairs.name}: no layer of {encoder.name} tells any two pairs apart", "check the model's weights"
        )
    return LayerScores(
        name=pairs.name,
        split=pairs.split,
        pairs=len(pairs),
        checksum=checksum_of(pairs),
        spearman=dict(zip(encoder.poolings, zip(*scores, strict=True), strict=True)),
    )


def _spearman(pairs: ScoredPairs, cosines: Similarities) -> float | None:
    if np.ptp(cosines) < _ROUNDING:
        return None
    return next(one.value for one in score_pairs(pairs, cosines) if one.metric == "spearman")


def _cosines(encoder: LayerEncoder, sets: Sequence[ScoredPairs]) -> tuple[int, list[Similarities]]:
    """Cosines of all pairs, (layers, poolings, pairs) for each set, and the number of unique texts."""
    known: dict[str, int] = {}
    sides = ((text for one in sets for text in one.first), (text for one in sets for text in one.second))
    rows = np.array([[known.setdefault(text, len(known)) for text in side] for side in sides], dtype=np.intp)
    texts = list(known)
    cosines = np.empty((encoder.layers, len(encoder.poolings), rows.shape[1]))
    bytes_of_text = 4 * encoder.layers * len(encoder.poolings) * encoder.width
    for step, vectors, places in _steps(encoder, texts, rows, max(1, _BYTES_AT_ONCE // (2 * bytes_of_text))):
        for layer, pooling in np.ndindex(cosines.shape[:2]):
            cosines[layer, pooling, step] = pair_cosines(vectors[:, layer, pooling], *places)
    ends = np.cumsum([len(one) for one in sets])[:-1]
    return len(texts), np.split(cosines, ends, axis=2)


def _steps(
    encoder: LayerEncoder, texts: Sequence[str], rows: Rows, pairs: int
) -> Iterator[tuple[Rows, npt.NDArray[np.float32], Rows]]:
    """Encode some pairs at a time, keeping only vectors that a later pair needs."""
    lengths = np.array([len(text) for text in texts])
    order = np.argsort(-lengths[rows].max(0), kind="stable")  # alike in length, so that little is padding
    last = np.zeros(len(texts), dtype=np.intp)
    for side in rows:
        np.maximum.at(last, side[order], np.arange(len(order)))  # where a text is needed for the last time
    held = np.zeros(0, dtype=np.intp)
    vectors = np.zeros((0, encoder.layers, len(encoder.poolings), encoder.width), dtype=np.float32)
    for start in range(0, len(order), pairs):
        step = order[start : start + pairs]
        new = np.setdiff1d(rows[:, step], held)
        held = np.concatenate([held, new])
        vectors = np.concatenate([vectors, encoder.encode([texts[row] for row in new])])
        place = np.zeros(len(texts), dtype=np.intp)
        place[held] = np.arange(len(held))
        yield step, vectors, place[rows[:, step]]
        again = last[held] >= start + len(step)
        held, vectors = held[again], vectors[again]
