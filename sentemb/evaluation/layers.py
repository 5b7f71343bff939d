"""Layer map: STS scores of every layer of a transformer under every pooling."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sentemb.data.sts import ScoredPairs
from sentemb.encoding.resolve import LayerEncoder
from sentemb.evaluation.environment import environment
from sentemb.evaluation.record import check_free, write_record
from sentemb.evaluation.schema import Record, Score, record_name
from sentemb.evaluation.sts import (
    Rows,
    Similarities,
    UndefinedScoreError,
    dataset_of,
    load_sets,
    pair_cosines,
    score_pairs,
)
from sentemb.evaluation.suites import LAYERS

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Bytes of vectors that one step adds; STS-B's 2,500 sentences in all layers of BERT-base would be 300 MB.
_BYTES_AT_ONCE = 2**26
# All cosines of the embedding output at [CLS] are 1 but for rounding, which must not pass for a score.
_ROUNDING = 1e-6


def evaluate_layers(
    model: str | Path | SentenceTransformer,
    sets: Sequence[str] = ("stsb",),
    *,
    split: str = "test",
    poolings: Sequence[str] = ("cls", "mean", "max"),
    data_dir: str | Path | None = None,
    device: str | None = None,
    max_length: int | None = None,
    check_rows: bool = True,
    folder: Path | None = None,
    overwrite: bool = False,
    command: Sequence[str] | None = None,
) -> Record:
    """Score every layer of a transformer under every pooling (SG-BERT, figure 1).

    Each unique sentence goes through the model once. The record has Spearman x 100 of the cosines; a score's
    protocol is `POOLING, layer N` with layer 0 the embedding output, and a layer whose cosines are all equal
    has no score. With `folder`, the record is written there; its place is checked before encoding.
    """
    pairs = load_sets(sets, split=split, data_dir=data_dir, check_rows=check_rows)
    encoder = LayerEncoder(model, poolings=poolings, device=device, max_length=max_length)
    if folder is not None:
        name = record_name(encoder.name, LAYERS.name, protocol=split, seed=None)
        check_free(folder / name, encoder.fingerprint, overwrite=overwrite)
    began = time.perf_counter()
    unique, cosines = _cosines(encoder, pairs)
    scores = [
        score for one, values in zip(pairs, cosines, strict=True) for score in _score(one, values, encoder)
    ]
    record = Record(
        suite=LAYERS.name,
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.width,
        protocol=split,
        datasets=tuple(map(dataset_of, pairs)),
        scores=tuple(scores),
        encoder=encoder.describe(),
        environment=environment({"layers": time.perf_counter() - began}, command),
        details={"unique": unique},
    )
    if folder is not None:
        write_record(record, {}, {}, folder, overwrite=overwrite)
    return record


def _score(pairs: ScoredPairs, cosines: Similarities, encoder: LayerEncoder) -> list[Score]:
    """Score one set; cosines (layers, poolings, pairs)."""
    scores = []
    for number, pooling in enumerate(encoder.poolings):
        for layer, values in enumerate(cosines[:, number]):
            if np.ptp(values) >= _ROUNDING:
                score = next(one for one in score_pairs(pairs, values) if one.metric == LAYERS.measure)
                scores.append(score.model_copy(update={"protocol": f"{pooling}, layer {layer}"}))
    if not scores:
        raise UndefinedScoreError(
            f"{pairs.name}: all similarities are equal in every layer of {encoder.name}",
            "check the model's weights",
        )
    return scores


def _cosines(encoder: LayerEncoder, sets: Sequence[ScoredPairs]) -> tuple[int, list[Similarities]]:
    """Return the number of unique texts, and cosines of all pairs (layers, poolings, pairs) for each set."""
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
    order = np.argsort(-lengths[rows].max(0), kind="stable")  # similar lengths together: little padding
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
