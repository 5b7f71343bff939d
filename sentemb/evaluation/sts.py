"""Semantic textual similarity: cosines of sentence vectors against gold scores, for any encoder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sentemb._files import shareable
from sentemb.data.catalogue import expand
from sentemb.data.files import names_a_file
from sentemb.data.sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs
from sentemb.encoding import NonFiniteError, TextEncoder, load_encoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation.environment import new_record
from sentemb.evaluation.measures import (
    CORRELATIONS,
    PROTOCOLS,
    CorrelationError,
    Protocol,
    combine,
    correlate,
)
from sentemb.evaluation.record import check_free, load_predictions, write_record
from sentemb.evaluation.schema import DataSet, Record, Score, checksum_of_parts, record_name, seed_of
from sentemb.evaluation.suites import STS, Loaded, LoadedSuite, Options, Suite, read_available

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Rows = npt.NDArray[np.intp]
Similarities = npt.NDArray[np.float64]

_BATCH = 4096  # rows of a step: two float64 blocks of 4,096 x 768 are 48 MiB
_EPS = 1e-8  # the floor under each norm, as in torch.nn.functional.cosine_similarity
_BELOW_ONE = np.nextafter(1.0, 0.0)


class UndefinedScoreError(InputError):
    """A set does not have a score: its similarities are constant or not finite."""


@dataclass(frozen=True, eq=False)
class EncodedSets:
    """Vectors of sets whose sentences were encoded together, each unique one once."""

    pairs: tuple[ScoredPairs, ...]
    vectors: Vectors  # shape (unique, dim)
    # for each set the row of every pair's first and second sentence, each of shape (pairs,)
    rows: tuple[tuple[Rows, Rows], ...]


def evaluate_sts(
    encoder: TextEncoder | SentenceTransformer | str | Path | Any,
    sets: Sequence[str] = STS_SETS,
    *,
    data_dir: str | Path | None = None,
    progress: bool = False,
    check_rows: bool = True,
) -> Record:
    """Evaluate an encoder on the STS suite: cosine similarity, no training, Spearman and Pearson x 100.

    Args:
        encoder: Anything that `load_encoder` takes: a path, a hub id, a `SentenceTransformer`, a callable, ….
        sets: Names of sets; the papers' seven by default.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        progress: Show a progress bar.
        check_rows: Refuse a set whose number of pairs differs from the catalogue's.

    Returns:
        The record, see `evaluate_pairs`.

    Raises:
        InputError: Unknown set, unusable data, unknown encoder.
        UndefinedScoreError: A set does not have a score: a vector is not finite, or its similarities are
            constant.

    Example:
        >>> record = evaluate_sts("static-mini", ["pairs.csv"])
        >>> round(record.score("pairs"))
        69
    """
    return evaluate_pairs(
        encoder, load_sets(sets, data_dir=data_dir, check_rows=check_rows), progress=progress
    )


def load_sets(
    sets: Sequence[str] = STS_SETS,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    check_rows: bool = True,
) -> list[ScoredPairs]:
    """Read sets of the catalogue, or files of scored pairs."""
    if isinstance(sets, str) or not sets:
        raise InputError("the list of sets is empty", f"choose among {', '.join(STS_SETS)}, sickr-mteb")
    names = expand(sets)
    _check_unique(names)
    read = partial(load_scored_pairs, data_dir=data_dir, check_rows=check_rows)
    pairs = [read(name, split=None if names_a_file(name) else split) for name in names]
    _check_unique([one.name for one in pairs])
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
    """Evaluate an encoder on sets that are already read. All sentences are encoded in one call, each once.

    Args:
        encoder: Anything that `load_encoder` takes.
        pairs: The sets.
        suite: The suite whose average and headline the record has.
        seed: The seed that the encoder was trained with; by default the N of a name that ends in `-seed-N`.
        folder: Write the record here; whether it has a place is checked before encoding.
        overwrite: Replace an earlier record of the same encoder.
        command: The command line, for the record.
        progress: Show a progress bar.

    Returns:
        The record, with Spearman and Pearson x 100 under `all`, `mean` and `wmean`: `record.score("stsb")`,
        `record.average()`, and `write_record` keeps it.

    Raises:
        InputError: The encoder cannot be loaded, or its record does not have a place.
        UndefinedScoreError: A set does not have a score: a vector is not finite, or its similarities are
            constant.

    Example:
        >>> pairs = read_scored_pairs("pairs.csv")
        >>> evaluate_pairs("static-mini", [pairs]).suite
        'sts'
    """
    _check_unique([one.name for one in pairs])
    loaded = load_encoder(encoder)
    seed = seed_of(loaded.name) if seed is None else seed
    if folder is not None:
        name = record_name(loaded.name, suite.name, protocol=suite.protocol, seed=seed)
        check_free(folder / name, loaded.fingerprint, overwrite=overwrite)
    began = time.perf_counter()
    encoded = encode_sets(loaded, pairs, progress=progress)
    between = time.perf_counter()
    cosines = {one.name: own for one, own in zip(pairs, cosines_of(encoded), strict=True)}
    scores = [score for one in pairs for score in score_pairs(one, cosines[one.name])]
    record = new_record(
        suite.name,
        loaded,
        {"encode": between - began, "score": time.perf_counter() - between},
        command,
        protocol=suite.protocol,
        seed=seed,
        datasets=tuple(map(dataset_of, pairs)),
        scores=tuple(scores),
        details={"sentences": 2 * sum(map(len, pairs)), "unique": len(encoded.vectors)},
    ).with_predictions(cosines, {one.name: one.gold for one in pairs})
    if folder is not None:
        write_record(record, *load_predictions(record), folder, overwrite=overwrite)
    return record


def cosines_of(encoded: EncodedSets) -> list[Similarities]:
    """Return the cosines of the pairs of each set."""
    return [pair_cosines(encoded.vectors, *rows) for rows in encoded.rows]


def encode_sets(encoder: TextEncoder, pairs: Sequence[ScoredPairs], *, progress: bool = False) -> EncodedSets:
    """Encode sets in one call, without the encoder's fingerprint, which takes a pass over all weights."""
    if not pairs:
        raise InputError("the list of pairs is empty", "list at least one set")
    # One row per unique string, shared by all sets: three quarters of STS-B's test sentences are in
    # STS12-16.
    known: dict[str, int] = {}

    def rows_of(texts: Sequence[str]) -> Rows:
        return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.intp)

    rows = tuple((rows_of(one.first), rows_of(one.second)) for one in pairs)
    try:
        vectors = encoder.encode(list(known), progress=progress)  # (unique, dim)
    except NonFiniteError as error:
        names = ", ".join(one.name for one in pairs)
        raise UndefinedScoreError(f"{names}: {error.message}", error.hint) from error
    return EncodedSets(tuple(pairs), vectors, rows)


def pair_cosines(vectors: npt.NDArray[np.floating], first: Rows, second: Rows) -> Similarities:
    """Return the cosine of each pair of rows, in float64.

    A row paired with itself gives exactly 1, so that identical sentences tie. Two rows that hold equal
    vectors, as different strings have that a tokenizer reads alike, tie at the number just below 1. Left to
    rounding, the 61 identical and 18 such pairs of STS12 move the score of all-MiniLM-L6-v2 between 72.364
    and 72.371. A zero vector gives 0 with everything, itself included, as in torch.
    """
    cosines = np.empty(len(first), dtype=np.float64)
    for start in range(0, len(first), _BATCH):
        rows = slice(start, start + _BATCH)
        left = vectors[first[rows]].astype(np.float64)  # (batch, dim)
        right = vectors[second[rows]].astype(np.float64)  # (batch, dim)
        squares = [np.maximum(np.einsum("bd,bd->b", side, side), _EPS**2) for side in (left, right)]
        # The root of the product, not the product of the roots: for equal vectors it equals their product.
        cosines[rows] = np.einsum("bd,bd->b", left, right) / np.sqrt(squares[0] * squares[1])  # (batch,)
    cosines = np.clip(cosines, -1.0, _BELOW_ONE)
    cosines[(first == second) & (cosines > 0)] = 1.0
    return cosines


def score_pairs(pairs: ScoredPairs, similarities: Similarities) -> tuple[Score, ...]:
    """Score one set under every protocol: correlations x 100.

    A set without subsets has the same score under all three protocols; a copy without subsets of a set that
    has some, as MTEB's, has `all` alone.
    """

    def correlated(metric: str, part: Subset) -> float:
        rows = slice(part.start, part.stop)
        try:
            return 100 * correlate(metric, similarities[rows], pairs.gold[rows])
        except CorrelationError as error:
            place = pairs.name if part is whole else f"{pairs.name}/{part.name}"
            raise UndefinedScoreError(
                f"{place}: {error}", "check the encoder's vectors, or exclude the set"
            ) from error

    whole, scores = Subset(pairs.name, 0, len(pairs)), []
    for metric in CORRELATIONS:
        values: dict[Protocol, float] = {"all": correlated(metric, whole)}
        if len(pairs.subsets) > 1 and not pairs.undivided:
            parts = [correlated(metric, part) for part in pairs.subsets]
            sizes = [part.stop - part.start for part in pairs.subsets]
            values |= {"mean": combine(parts, sizes, "mean"), "wmean": combine(parts, sizes, "wmean")}
        elif not pairs.undivided:
            values = dict.fromkeys(PROTOCOLS, values["all"])
        scores += [
            Score(dataset=pairs.name, metric=metric, protocol=protocol, value=value)
            for protocol, value in values.items()
        ]
    return tuple(scores)


def check_gold(pairs: ScoredPairs) -> None:
    """Raise InputError if gold scores cannot be ranked, before anything is encoded for them."""
    whole = Subset(pairs.name, 0, len(pairs))
    for part in (whole, *pairs.subsets):
        gold = pairs.gold[part.start : part.stop]
        try:
            correlate("spearman", gold, gold)
        except CorrelationError:
            place = f"{pairs.name} {pairs.split}" + (f" ({pairs.source})" if pairs.source else "")
            raise InputError(
                f"{place}: the {len(gold)} gold scores of {part.name} are all equal",
                "provide pairs with at least two different scores",
            ) from None


def dataset_of(pairs: ScoredPairs) -> DataSet:
    """Return the entry of a record for a set of pairs."""
    return DataSet(
        name=pairs.name,
        split=pairs.split,
        items=len(pairs),
        sha256=checksum_of(pairs),
        source=shareable(pairs.source),
        subsets=pairs.subsets if len(pairs.subsets) > 1 else (),
    )


def checksum_of(pairs: ScoredPairs) -> str:
    """Return a checksum of the texts and gold scores, whatever file they came from."""
    rows = zip(pairs.first, pairs.second, pairs.gold, strict=True)
    return checksum_of_parts(
        part for first, second, gold in rows for part in (first, second, float(gold).hex().encode("ascii"))
    )


def load(suite: Suite, options: Options) -> Loaded:
    """Read the available sets of `sts` or `multilingual`."""
    # MTEB's SICK-R has pairs of its own, all but a few sentences of which are encoded anyway.
    extra = ("sickr-mteb",) if suite is STS else ()
    read = partial(load_scored_pairs, split="test", data_dir=options.data_dir, check_rows=options.check_rows)
    found, missing = read_available((*suite.sets, *extra), read)
    return Loaded((pair_suite(suite, list(found.values())),) if found else (), missing)


def pair_suite(suite: Suite, pairs: Sequence[ScoredPairs]) -> LoadedSuite:
    """Return a suite of correlations of cosines with the scores of pairs."""
    sets = {one.name: one for one in pairs}

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        record = evaluate_pairs(encoder, [sets[name] for name in names], suite=suite)
        mean = record.average(protocol=suite.protocol)
        yield record, f"{len(names)} sets" + ("" if mean is None else f", average {mean:.2f}")

    return LoadedSuite(
        name=suite.name,
        protocol=suite.protocol,
        checksums={name: checksum_of(one) for name, one in sets.items()},
        texts={name: [*one.first, *one.second] for name, one in sets.items()},
        evaluate=evaluate,
        seed=seed_of,
    )


def _check_unique(names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"the set {twice[0]} is listed twice", "list each set once")
