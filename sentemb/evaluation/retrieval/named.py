"""Searchers by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentemb.encoding import TextEncoder
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.hybrid import PREFIXES, HybridSearcher
from sentemb.evaluation.retrieval.ranking import SUFFIX
from sentemb.evaluation.retrieval.searchers import BM25, DenseSearcher, KeywordSearcher, SavedRuns, Searcher


def searcher_of(name: str, load: Callable[[str], TextEncoder], stored: ShardFolder | None = None) -> Searcher:
    """Return the searcher that a name means.

    Names are `bm25`; `hybrid:MODEL`, `hybrid-fitted:MODEL` or `hybrid-rrf:MODEL`; a run in TREC's format
    (`.trec`, `.run`), a folder of runs; or a model. `stored` has the documents' vectors of the model.
    """
    if name == BM25:
        return KeywordSearcher()
    prefix = _prefix(name)
    if prefix:
        return HybridSearcher(load(name.removeprefix(prefix)), PREFIXES[prefix], stored)
    if not is_run(name):
        return DenseSearcher(load(name), stored)
    if not Path(name).exists():
        raise InputError(f"no such file: {name}", "use a run file in TREC format")
    return SavedRuns(Path(name))


def model_of(name: str) -> str | None:
    """Return the model that a system needs; None of BM25 and of saved runs."""
    return None if name == BM25 or is_run(name) else name.removeprefix(_prefix(name))


def is_run(name: str) -> bool:
    """Return whether a name is that of saved runs."""
    path = Path(name)
    return path.suffix in (SUFFIX, ".run") or (path.is_dir() and any(path.glob(f"*{SUFFIX}")))


def _prefix(name: str) -> str:
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
