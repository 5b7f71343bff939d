"""The STS suite: any encoder on STS12 to STS16, STS-B and SICK-R, every sentence encoded once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import expand
from sentemb.data.files import names_a_file
from sentemb.data.sts import STS_SETS, ScoredPairs, load_scored_pairs
from sentemb.encoding import NonFiniteError, TextEncoder, load_encoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation.environment import environment
from sentemb.evaluation.naming import record_name, seed_of
from sentemb.evaluation.record import check_free, load_predictions, write_record
from sentemb.evaluation.schema import Record
from sentemb.evaluation.scoring import (
    Similarities,
    UndefinedScoreError,
    check_gold,
    dataset_of,
    pair_cosines,
    score_pairs,
)
from sentemb.evaluation.suites import STS, Suite

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class EncodedSets:
    """Vectors of sets whose sentences were encoded together, each unique one once."""

    pairs: tuple[ScoredPairs, ...]
    vectors: Vectors  # shape (unique, dim)
    # for each set the row of every pair's first and second sentence, each of shape (pairs,)
    rows: tuple[tuple[Rows, Rows], ...]


def load_sets(
    sets: Sequence[str] = STS_SETS,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    check_rows: bool = True,
) -> list[ScoredPairs]:
    """Read the sets of a suite, or files of scored pairs."""
    if isinstance(sets, str) or not sets:
        raise InputError("the list of sets is empty", f"choose among {', '.join(STS_SETS)}, sickr-mteb")
    pairs = [
        load_scored_pairs(
            name, split=None if names_a_file(name) else split, data_dir=data_dir, check_rows=check_rows
        )
        for name in _once(expand(sets))
    ]
    _once([one.name for one in pairs])
    for one in pairs:
        check_gold(one)
    return pairs


def evaluate_pairs(
    encoder: TextEncoder | SentenceTransformer | str | Path | Any,
    pairs: Sequence[ScoredPairs],
    *,
    suite: Suite = STS,
    seed: int | None = None,
    folder: Path | None = None,
    overwrite: bool = False,
    command: Sequence[str] | None = None,
    progress: bool = False,
) -> Record:
    """Evaluate an encoder on sets that are already read.

    Args:
        encoder: Anything that `load_encoder` takes.
        pairs: The sets.
        suite: The suite whose average and headline the record has.
        seed: The seed that the encoder was trained with; by default the N of a name that ends in `-seed-N`.
        folder: Write the record here, once it is sure before encoding that it has a place.
        overwrite: Replace an earlier record of the same encoder.
        command: The command line, for the record.
        progress: Show a progress bar.

    Returns:
        The record: Spearman and Pearson x 100 under `all`, `mean` and `wmean`.

    Raises:
        InputError: The encoder cannot be loaded, or its record has no place.
        UndefinedScoreError: A set has no score: a vector is not finite, or its similarities are constant.

    Example:
        >>> pairs = read_scored_pairs("pairs.csv")
        >>> evaluate_pairs("static-mini", [pairs]).suite
        'sts'
    """
    _once([one.name for one in pairs])
    loaded = load_encoder(encoder)
    seed = seed_of(loaded.name) if seed is None else seed
    if folder is not None:
        name = record_name(loaded.name, suite.name, protocol=suite.protocol, seed=seed)
        check_free(folder / name, loaded.fingerprint, overwrite=overwrite)
    began = time.perf_counter()
    encoded = encode_sets(loaded, pairs, progress=progress)
    between = time.perf_counter()
    similarities = cosines_of(encoded)
    scores = [
        score for one, found in zip(pairs, similarities, strict=True) for score in score_pairs(one, found)
    ]
    seconds = {"encode": between - began, "score": time.perf_counter() - between}
    record = Record(
        suite=suite.name,
        model=loaded.name,
        fingerprint=loaded.fingerprint,
        dimension=loaded.dimension,
        protocol=suite.protocol,
        seed=seed,
        datasets=tuple(map(dataset_of, pairs)),
        scores=tuple(scores),
        encoder=dict(loaded.describe()),
        environment=environment(seconds, command),
        details={"sentences": 2 * sum(map(len, pairs)), "unique": len(encoded.vectors)},
    ).with_predictions(
        {one.name: found for one, found in zip(pairs, similarities, strict=True)},
        {one.name: one.gold for one in pairs},
    )
    if folder is not None:
        write_record(record, *load_predictions(record), folder, overwrite=overwrite)
    return record


def encode_sets(encoder: TextEncoder, pairs: Sequence[ScoredPairs], *, progress: bool = False) -> EncodedSets:
    """Encode sets in one call, without asking for the encoder's fingerprint, a pass over all weights."""
    if not pairs:
        raise InputError("the list of pairs is empty", "list at least one set")
    # One row per unique string, shared by all sets: three quarters of STS-B's test sentences are in
    # STS12-16.
    known: dict[str, int] = {}
    rows = tuple((_rows_of(one.first, known), _rows_of(one.second, known)) for one in pairs)
    try:
        vectors = encoder.encode(list(known), progress=progress)  # (unique, dim)
    except NonFiniteError as error:
        names = ", ".join(one.name for one in pairs)
        raise UndefinedScoreError(f"{names}: {error.message}", error.hint) from error
    return EncodedSets(tuple(pairs), vectors, rows)


def cosines_of(encoded: EncodedSets) -> list[Similarities]:
    """The similarity of every pair of each set."""
    return [pair_cosines(encoded.vectors, first, second) for first, second in encoded.rows]


def _once(names: Sequence[str]) -> Sequence[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"the set {twice[0]} is listed twice", "list each set once")
    return names


def _rows_of(texts: Sequence[str], known: dict[str, int]) -> Rows:
    return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.intp)


def evaluate_sts(
    encoder: TextEncoder | SentenceTransformer | str | Path | Any,
    sets: Sequence[str] = STS_SETS,
    *,
    data_dir: str | Path | None = None,
    progress: bool = False,
    check_rows: bool = True,
) -> Record:
    """Evaluate an encoder on the STS suite: cosine similarity, no training, Spearman and Pearson x 100.

    The sentences of all sets are encoded in one call, each unique one once.

    Args:
        encoder: Anything that `load_encoder` takes: a path, a hub id, a `SentenceTransformer`, a callable, ….
        sets: Names of sets; the papers' seven by default.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        progress: Show a progress bar.
        check_rows: Refuse a set whose number of pairs differs from the catalogue's.

    Returns:
        The record, with correlations under `all`, `mean` and `wmean`: `record.score("stsb")`,
        `record.average()`, and `write_record` keeps it.

    Raises:
        InputError: Unknown set, unusable data, unknown encoder.
        UndefinedScoreError: A set has no score: a vector is not finite, or its similarities are constant.

    Example:
        >>> record = evaluate_sts("static-mini", ["pairs.csv"])
        >>> round(record.score("pairs"))
        69
    """
    return evaluate_pairs(
        encoder, load_sets(sets, data_dir=data_dir, check_rows=check_rows), progress=progress
    )
