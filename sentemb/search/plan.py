"""Which faiss index fits: its kind, its parameters and its size, decided before anything is encoded."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from sentemb.errors import InputError

Kind = Literal["flat", "hnsw", "ivfpq"]
Metric = Literal["cosine", "dot"]

# Below this an exact search over 384 dimensions takes about 5 ms on two cores: nothing to gain from a graph.
FLAT_LIMIT = 50_000
DEFAULT_MEMORY_BUDGET = 2 * 1024**3
HNSW_NEIGHBOURS = 32
# faiss wants 39 points for each centroid of k-means, and 16 lists are the fewest that save any work.
POINTS_PER_LIST = 39
IVFPQ_MINIMUM = 16 * POINTS_PER_LIST * 10 // 9 + 1
IVFPQ_DIMENSIONS = 8
# Dimensions for each 4-bit code, finest first, where the database has the exact vectors that rank candidates,
# and where texts are encoded again. The finest are taken only if a budget is given.
_CODED, _RESCORED = (1, 2, 4, 8), (2, 3, 4)
_ID_BYTES = 8
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """A decision about an index, with its reason.

    Args:
        kind: `flat` compares with every vector; `hnsw` walks a graph of neighbours (Malkov and Yashunin,
            arXiv 1603.09320); `ivfpq` scans 4-bit product codes (Jégou et al., 2011; André et al., 2017) of
            the lists nearest to the query, and the exact vectors of the best candidates rank them.
        factory: Its description in faiss's way.
        bytes: Estimated size in memory and on disk.
        reason: Why this one, in a sentence without a full stop.

    Example:
        >>> plan_index(1000, 256).factory
        'Flat'
    """

    kind: Kind
    factory: str
    bytes: int
    reason: str


def plan_index(
    count: int,
    dimension: int,
    *,
    kind: Kind | Literal["auto"] = "auto",
    memory_budget: int | None = None,
    factory: str | None = None,
    rescored: bool = False,
) -> IndexPlan:
    """Choose an index for so many vectors.

    With `auto`: exact search up to 50,000 vectors, then HNSW, then IVF-PQ with the finest codes that fit the
    budget. A kind given by the user is kept and must fit the budget, if any; IVF-PQ without a budget takes
    a quarter of a byte a dimension.

    Args:
        count: Number of vectors.
        dimension: Their length.
        kind: A kind, or `auto`.
        memory_budget: Bytes that the vectors and their index may take in memory; for `auto` 2 GiB by default,
            otherwise without bound.
        factory: A description of faiss in place of a kind, such as `IVF4096,PQ64x4fs`, for experts: `Flat`,
            `HNSW` with a number of neighbors, or any `IVF` index.
        rescored: Whether the texts of candidates are encoded again to rank them.

    Returns:
        The plan.

    Raises:
        InputError: Nothing fits the budget, or the kind does not suit so few or such vectors.

    Example:
        >>> plan_index(1_000_000, 256).kind
        'hnsw'
    """
    if kind not in ("auto", "flat", "hnsw", "ivfpq"):
        raise InputError(f"unknown index kind {kind!r}", "choose one of auto, flat, hnsw, ivfpq")
    if memory_budget is not None and memory_budget <= 0:
        raise InputError(f"the memory budget is {memory_budget} bytes", "pass a positive size")
    if factory is not None:
        return _requested(factory, kind)
    budget = DEFAULT_MEMORY_BUDGET if kind == "auto" and memory_budget is None else memory_budget
    factories = _factories(kind, count, dimension, rescored=rescored)
    if kind == "ivfpq" and budget is None and not rescored:
        factories = factories[1:]
    sizes = [estimate_bytes(one, count, dimension) for one in factories]
    for one, size in zip(factories, sizes, strict=True):
        if budget is None or size <= budget:
            chosen = kind_of(one)
            why = f" because larger indexes exceed the memory budget of {format_bytes(budget or 0)}"
            if kind != "auto":
                why = ", as requested"
            elif chosen == "flat":
                why = f" because exact search is fast up to {FLAT_LIMIT:,} vectors"
            elif one is factories[0]:
                why = f" because exact search is slow above {FLAT_LIMIT:,} vectors"
            estimate = f"{count:,} vectors take about {format_bytes(size)}"
            return IndexPlan(chosen, one, size, f"{chosen}{why}; {estimate}")
    raise InputError(
        f"{count:,} vectors of {dimension} dimensions do not fit a memory budget of "
        f"{format_bytes(budget or 0)}",
        f"the smallest index needs {format_bytes(min(sizes))}; raise the memory budget (--memory-budget)",
    )


def _requested(factory: str, kind: str) -> IndexPlan:
    # The candidates of codes are ranked by their exact vectors anyway.
    factory = factory.removesuffix(",RFlat")
    chosen = kind_of(factory)
    if kind not in ("auto", chosen):
        raise InputError(f"the factory {factory} is not of the kind {kind}", "remove one of them")
    return IndexPlan(chosen, factory, 0, f"{factory}, as requested")


def estimate_bytes(factory: str, count: int, dimension: int) -> int:
    """Estimate the bytes that an index takes in memory and on disk, without its documents.

    Args:
        factory: faiss's description, as in `IndexPlan.factory`.
        count: Number of vectors.
        dimension: Their length.

    Returns:
        Bytes.

    Example:
        >>> estimate_bytes("Flat", 1000, 256)
        1032000
    """
    full = 4 * dimension
    if factory.startswith("HNSW"):
        # Twice the neighbours on the ground level; one vector in 32 is on the next level, and so on.
        return count * (full + 4 * (2 * HNSW_NEIGHBOURS + 2) + 4 + 8 + _ID_BYTES)
    match = re.search(r"IVF(\d+),PQ(\d+)x4fs", factory)
    if match is None:
        return count * (full + _ID_BYTES)
    lists, parts = map(int, match.groups())
    # Codes lie in blocks of 32 vectors, so the last block of each list is half empty on average.
    codes = (count + 16 * lists) * (parts + parts % 2) // 2
    return codes + count * 2 * _ID_BYTES + lists * full + 16 * full


def budget_of(plan: IndexPlan, count: int, dimension: int) -> int | None:
    """Return the memory budget for which `plan_index` gives another number of vectors the codes of a plan."""
    if plan.kind != "ivfpq":
        return None
    return estimate_bytes(re.sub(r"IVF\d+", f"IVF{_lists(count)}", plan.factory), count, dimension)


def kind_of(factory: str) -> Kind:
    """Return the kind that a faiss description belongs to."""
    if factory == "Flat":
        return "flat"
    return "hnsw" if re.fullmatch(r"HNSW\d+(,Flat)?", factory) else "ivfpq"


def suits_ivfpq(count: int, dimension: int) -> bool:
    """Return whether IVF-PQ can be trained on so many vectors of this length."""
    return count >= IVFPQ_MINIMUM and dimension >= IVFPQ_DIMENSIONS


def parse_bytes(text: str) -> int:
    """Read a size such as `500MB`, `1.5 GiB` or `2000000`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", text, flags=re.IGNORECASE | re.ASCII)
    if match is None:
        raise InputError(f"{text!r} is not a size", "write it like 500MB or 2GiB")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def format_bytes(size: float) -> str:
    """Write a size for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _factories(kind: Kind | Literal["auto"], count: int, dimension: int, *, rescored: bool) -> list[str]:
    """Return the descriptions of a kind, the best first."""
    codes: list[str] = []
    if suits_ivfpq(count, dimension):
        # The parts of a product code have equal lengths.
        parts = (
            next(number for number in range(dimension // each, 0, -1) if dimension % number == 0)
            for each in (_RESCORED if rescored else _CODED)
        )
        codes = list(dict.fromkeys(f"IVF{_lists(count)},PQ{number}x4fs" for number in parts))
    elif kind == "ivfpq":
        raise InputError(
            f"ivfpq needs at least {IVFPQ_MINIMUM} vectors of {IVFPQ_DIMENSIONS} dimensions; "
            f"got {count:,} of {dimension}",
            "choose flat or hnsw",
        )
    if kind == "auto":
        graph = f"HNSW{HNSW_NEIGHBOURS}"
        return ["Flat", *codes] if count <= FLAT_LIMIT else [graph, *(codes or ["Flat"])]
    return {"flat": ["Flat"], "hnsw": [f"HNSW{HNSW_NEIGHBOURS}"], "ivfpq": codes}[kind]


def _lists(count: int) -> int:
    # Scanning 4-bit codes is so cheap that few long lists beat the 4 sqrt(n) that faiss advises for plain
    # codes: on 50,871 MiniLM vectors, recall .98 took a third of the training and 10 % less time per query.
    # Never so many lists that k-means lacks points, a tenth of which are held out.
    return max(16, min(round(math.sqrt(count)), count * 9 // 10 // POINTS_PER_LIST))
