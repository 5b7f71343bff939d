"""How much hybrid search trusts vectors and words, and what says so."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sentemb._fusion_weights import Fit

# Where one side finds less than this part of what the other does, it is bad.
_BAD = 0.5


@dataclass(frozen=True, slots=True)
class HybridWeight:
    """The share of vectors in hybrid search, and how well both sides find on their own.

    Args:
        weight: The encoder's share: 1 is its vectors alone, 0 keyword search alone, 0.5 both alike.
        dense: Mean NDCG@10 of the encoder alone, from 0 to 1.
        keyword: That of keyword search alone.
        fused: That of both with this weight.
        queries: How many queries were asked.
        judged: Whether they are a user's, with judged documents; else they were cut from documents, and the
            document that each was cut from is to be found.

    Example:
        >>> weight = SearchIndex.load("index").fit(["order a dictionary"], [["py-1"]])
        >>> weight.weight
        0.5
    """

    weight: float
    dense: float
    keyword: float
    fused: float
    queries: int
    judged: bool

    @classmethod
    def of(cls, fit: Fit, *, judged: bool) -> HybridWeight:
        """The same as plain numbers."""
        return cls(*fit, judged=judged)

    @property
    def one_is_bad(self) -> bool:
        """Whether one side finds less than half of what the other finds."""
        return min(self.dense, self.keyword) < _BAD * max(self.dense, self.keyword)

    def reason(self) -> str:
        """Say which way hybrid search leans, and why."""
        values = asdict(self)
        queries = "queries with qrels" if values.pop("judged") else "generated queries"
        return f"hybrid search {Fit(**values).reason(queries)}"
