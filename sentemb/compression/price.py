"""What each variant of a model costs and gains: bytes, speed, and differences with interval and p."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sentemb.compression.variants import WHOLE
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.evaluation import Difference, Record, compare_all, evaluate_pairs, evaluate_retrieval, system_of
from sentemb.evaluation.systems import with_clusters
from sentemb.evaluation.timing import time_in_turns
from sentemb.modules.rounding import RoundedVectors

NDCG = "ndcg@10"
_ROUNDS = 3
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Price:
    """One variant.

    Attributes:
        name: The variant.
        bytes: Of its folder's files of weights and graphs.
        vector_bytes: Of a vector.
        speed: Texts a second, measured in turns with the other variants.
        sts: The difference of the correlations x 100, variant minus model; None without scored pairs.
        ndcg: That of NDCG@10 x 100; None without queries.
        best: No other variant is smaller, faster and better at once.
    """

    name: str
    bytes: int
    vector_bytes: int
    speed: float
    sts: Difference | None
    ndcg: Difference | None
    best: bool = False

    @property
    def loss(self) -> float:
        """The larger loss in points; 0 where there is none."""
        return max([0.0, *(-one.size for one in (self.sts, self.ndcg) if one is not None)])

    def to_json(self) -> dict[str, Any]:
        """All numbers, for a record."""
        return {
            "name": self.name,
            "bytes": self.bytes,
            "bytes_of_a_vector": self.vector_bytes,
            "texts_per_second": self.speed,
            "sts": _numbers(self.sts),
            "ndcg@10": _numbers(self.ndcg),
            "pareto": self.best,
        }


@dataclass(frozen=True)
class Prices:
    """All variants, the model itself first.

    Attributes:
        rows: What each costs.
        pairs: Names of the sets of scored pairs.
        tasks: Names of the sets of queries.
        texts: Number of texts that speed was measured on.
    """

    rows: tuple[Price, ...]
    pairs: tuple[str, ...]
    tasks: tuple[str, ...]
    texts: int

    def find(self, name: str) -> Price:
        """The row of a variant."""
        return next(row for row in self.rows if row.name == name)


def price(
    variants: Mapping[str, tuple[Path, TextEncoder]],
    pairs: Sequence[ScoredPairs],
    tasks: Sequence[RetrievalSet],
    texts: Sequence[str],
    *,
    cache: Path,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Prices:
    """Price variants.

    Args:
        variants: Their folders and encoders by name; the first is the model itself.
        pairs: Scored pairs.
        tasks: Queries with the documents they are to find.
        texts: The user's texts, to measure speed on.
        cache: A folder for vectors meanwhile.
        seed: Of the statistics' draws.
        progress: Takes a stage, and how much of how much of it is done.

    Returns:
        The prices.
    """
    encoders = {name: encoder for name, (_, encoder) in variants.items()}
    records: dict[str, tuple[Record | None, Record | None]] = {}
    for done, (name, encoder) in enumerate(encoders.items()):
        progress(f"measuring quality of {name}", done, len(encoders))
        kept = CachedEncoder(encoder, cache / name)
        records[name] = (
            evaluate_pairs(kept, pairs) if pairs else None,
            evaluate_retrieval(kept, tasks) if tasks else None,
        )
    progress("measuring speed", 0, 1)
    seconds = time_in_turns(
        {name: partial(encoder.encode, texts) for name, encoder in encoders.items()},
        rounds=_ROUNDS,
    )
    progress("comparing", 0, 1)
    sts = _differences({name: both[0] for name, both in records.items()}, None, (), seed)
    ndcg = _differences({name: both[1] for name, both in records.items()}, NDCG, tasks, seed)
    rows = [
        Price(
            name,
            size_of(folder),
            _vector_bytes(encoder),
            len(texts) / min(seconds[name]),
            sts.get(name),
            ndcg.get(name),
        )
        for name, (folder, encoder) in variants.items()
    ]
    return Prices(
        tuple(_with_best(row, rows) for row in rows),
        tuple(one.name for one in pairs),
        tuple(one.name for one in tasks),
        len(texts),
    )


def size_of(folder: Path) -> int:
    """Bytes of weights and graphs; vocabulary and configuration are the same for all but a student."""
    kinds = (".safetensors", ".onnx", ".xml", ".bin")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.suffix in kinds)


def _vector_bytes(encoder: TextEncoder) -> int:
    last = list(encoder.model)[-1] if isinstance(encoder, SentenceEncoder) else None
    return last.bytes if isinstance(last, RoundedVectors) else _FLOAT_BYTES * encoder.dimension


def _differences(
    records: Mapping[str, Record | None], measure: str | None, tasks: Sequence[RetrievalSet], seed: int
) -> dict[str, Difference]:
    """The average difference of each variant from the model; tasks may ask for the same documents."""
    found = {name: record.model_copy(update={"model": name}) for name, record in records.items() if record}
    if not found:
        return {}
    systems = {
        name: with_clusters(system_of([record], name, measure=measure), tasks)
        for name, record in found.items()
    }
    others = [system for name, system in systems.items() if name != WHOLE]
    compared = compare_all(systems[WHOLE], others, seed=seed)
    return {one.second: one.headline for one in compared}


def _with_best(row: Price, rows: Sequence[Price]) -> Price:
    mine = _goods(row)
    beaten = any(
        all(other >= own for other, own in zip(_goods(one), mine, strict=True)) and _goods(one) != mine
        for one in rows
    )
    return replace(row, best=not beaten)


def _goods(row: Price) -> tuple[float, ...]:
    """What is better the larger it is."""
    sizes = [0.0 if one is None else one.size for one in (row.sts, row.ndcg)]
    return -row.bytes, -row.vector_bytes, row.speed, *sizes


def _numbers(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "difference": found.size,
        "interval": None if found.interval is None else list(found.interval),
        "p": found.p,
        "score": found.scores[1],
        "items": found.items,
    }
