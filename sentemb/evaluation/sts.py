"""The STS suite: any encoder on STS12 to STS16, STS-B and SICK-R, every sentence encoded once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import expand
from sentemb.data.sts import STS_SETS, ScoredPairs, load_scored_pairs
from sentemb.encoding import NonFiniteError, TextEncoder, load_encoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation.measures import Protocol
from sentemb.evaluation.scoring import Correlations, SetScore, UndefinedScoreError, pair_cosines, score_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class EncodedSets:
    """Vectors of sets whose sentences were encoded together, each distinct one once.

    Attributes:
        pairs: The sets.
        vectors: Shape (unique, dim).
        rows: For each set the row of every pair's first and second sentence, each of shape (pairs,).
    """

    pairs: tuple[ScoredPairs, ...]
    vectors: Vectors
    rows: tuple[tuple[Rows, Rows], ...]


@dataclass(frozen=True, eq=False)
class StsReport:
    """One encoder on one or more sets.

    Attributes:
        model: The encoder's name.
        fingerprint: The encoder's fingerprint.
        dimension: Length of its vectors.
        encoder: What `TextEncoder.describe()` says: backend, precision, versions.
        sets: One score per set, in the order asked for.
        sentences: Sentences in all pairs, repeats counted.
        unique: Sentences encoded: the distinct ones among them.
        seconds: Wall time of `encode` and of `score`.
    """

    model: str
    fingerprint: str
    dimension: int
    encoder: Mapping[str, Any]
    sets: tuple[SetScore, ...]
    sentences: int
    unique: int
    seconds: Mapping[str, float]

    def score(self, name: str, protocol: Protocol = "all") -> Correlations:
        """Correlations x 100 of one set.

        Args:
            name: The set.
            protocol: How subsets are treated.

        Returns:
            The correlations.

        Raises:
            InputError: The set is not in this report, or has no such score.
        """
        for score in self.sets:
            if score.name == name and protocol in score.scores:
                return score.scores[protocol]
        present = ", ".join(f"{score.name} ({', '.join(score.scores)})" for score in self.sets)
        raise InputError(f"{name} under {protocol} is not in this report", f"it holds {present}")

    def average(self, protocol: Protocol = "all") -> Correlations | None:
        """The papers' "Avg.": the mean over the seven sets.

        Args:
            protocol: How subsets are treated.

        Returns:
            The average, or None where one of the seven is missing: an average over fewer sets is another
            number.
        """
        return average(
            {score.name: score.scores[protocol] for score in self.sets if protocol in score.scores}
        )


def average(scores: Mapping[str, Correlations], sets: Sequence[str] = STS_SETS) -> Correlations | None:
    """Mean over the seven sets of the papers, or those of another suite, other sets left aside."""
    if not all(name in scores for name in sets):
        return None
    chosen = [scores[name] for name in sets]
    return Correlations(
        spearman=float(np.mean([score.spearman for score in chosen])),
        pearson=float(np.mean([score.pearson for score in chosen])),
    )


def load_sets(
    sets: Sequence[str] = STS_SETS,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    check_rows: bool = True,
) -> list[ScoredPairs]:
    """Read the sets of a suite."""
    if isinstance(sets, str) or not sets:
        raise InputError("no list of sets was given", f"choose among {', '.join(STS_SETS)}, sickr-mteb")
    names = expand(sets)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"set {twice[0]} is named twice", "name each set once")
    return [load_scored_pairs(name, split=split, data_dir=data_dir, check_rows=check_rows) for name in names]


def evaluate_pairs(
    encoder: TextEncoder | SentenceTransformer | str | Path | Any,
    pairs: Sequence[ScoredPairs],
    *,
    progress: bool = False,
) -> StsReport:
    """Judge an encoder on sets that are already read.

    Args:
        encoder: Anything that `load_encoder` takes.
        pairs: The sets.
        progress: Show a progress bar.

    Returns:
        The report.

    Raises:
        InputError: The encoder cannot be loaded.
        UndefinedScoreError: A set has no score: a vector is not finite, or its similarities are constant.
    """
    loaded = load_encoder(encoder)
    began = time.perf_counter()
    encoded = encode_sets(loaded, pairs, progress=progress)
    between = time.perf_counter()
    scores = score_sets(encoded)
    seconds = {"encode": between - began, "score": time.perf_counter() - between}
    return StsReport(
        model=loaded.name,
        fingerprint=loaded.fingerprint,
        dimension=loaded.dimension,
        encoder=loaded.describe(),
        sets=scores,
        sentences=2 * sum(score.pairs for score in scores),
        unique=len(encoded.vectors),
        seconds=seconds,
    )


def encode_sets(encoder: TextEncoder, pairs: Sequence[ScoredPairs], *, progress: bool = False) -> EncodedSets:
    """Encode sets in one call, without asking for the encoder's fingerprint, a pass over all weights."""
    if not pairs:
        raise InputError("there are no pairs to score", "name at least one set")
    # One row per distinct string, shared by all sets: three quarters of STS-B's test sentences are in
    # STS12-16.
    known: dict[str, int] = {}
    rows = tuple((_rows_of(one.first, known), _rows_of(one.second, known)) for one in pairs)
    try:
        vectors = encoder.encode(list(known), progress=progress)  # (unique, dim)
    except NonFiniteError as error:
        names = ", ".join(one.name for one in pairs)
        raise UndefinedScoreError(f"{names}: {error.message}", error.hint) from error
    return EncodedSets(tuple(pairs), vectors, rows)


def score_sets(encoded: EncodedSets) -> tuple[SetScore, ...]:
    """Score encoded sets."""
    return tuple(
        score_pairs(one, pair_cosines(encoded.vectors, first, second))
        for one, (first, second) in zip(encoded.pairs, encoded.rows, strict=True)
    )


def _rows_of(texts: Sequence[str], known: dict[str, int]) -> Rows:
    return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.intp)


def evaluate_sts(
    encoder: TextEncoder | SentenceTransformer | str | Path | Any,
    sets: Sequence[str] = STS_SETS,
    *,
    data_dir: str | Path | None = None,
    progress: bool = False,
    check_rows: bool = True,
) -> StsReport:
    """Judge an encoder on the STS suite: cosine similarity, no training, Spearman and Pearson x 100.

    The sentences of all sets are encoded in one call, each distinct one once.

    Args:
        encoder: Anything that `load_encoder` takes: a path, a hub id, a `SentenceTransformer`, a callable, ….
        sets: Names of sets; the papers' seven by default.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        progress: Show a progress bar.
        check_rows: Refuse a set whose number of pairs differs from the catalogue's.

    Returns:
        The report, with correlations under `all`, `mean` and `wmean`.

    Raises:
        InputError: Unknown set, unusable data, unknown encoder.
        UndefinedScoreError: A set has no score: a vector is not finite, or its similarities are constant.
    """
    return evaluate_pairs(
        encoder, load_sets(sets, data_dir=data_dir, check_rows=check_rows), progress=progress
    )
