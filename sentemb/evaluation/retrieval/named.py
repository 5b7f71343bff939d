"""What a name on the command line searches with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentemb.encoding import TextEncoder
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.hybrid import PREFIXES, HybridSearcher
from sentemb.evaluation.retrieval.searchers import BM25, DenseSearcher, KeywordSearcher, SavedRuns, Searcher
from sentemb.evaluation.retrieval.trec import SUFFIX

RUN_SUFFIXES = (SUFFIX, ".run")


def searcher_of(name: str, load: Callable[[str], TextEncoder], stored: ShardFolder | None = None) -> Searcher:
    """What a name on the command line means.

    Args:
        name: `bm25`; `hybrid:MODEL`, `hybrid-fitted:MODEL` or `hybrid-rrf:MODEL`; a run in TREC's format
            (`.trec`, `.run`), a folder of runs; or a model.
        load: Loads a model.
        stored: The documents' vectors of the model, where they are encoded already.

    Returns:
        The searcher.

    Raises:
        InputError: There is no such file, or the model cannot be loaded.
    """
    if name == BM25:
        return KeywordSearcher()
    prefix = _prefix(name)
    if prefix:
        return HybridSearcher(load(name.removeprefix(prefix)), PREFIXES[prefix], stored)
    return SavedRuns(_checked(Path(name))) if is_run(name) else DenseSearcher(load(name), stored)


def model_of(name: str) -> str | None:
    """The model that a system needs; None of BM25 and of saved runs."""
    return None if name == BM25 or is_run(name) else name.removeprefix(_prefix(name))


def is_run(name: str) -> bool:
    """Whether a name is that of saved runs."""
    path = Path(name)
    return path.suffix in RUN_SUFFIXES or (path.is_dir() and any(path.glob(f"*{SUFFIX}")))


def _prefix(name: str) -> str:
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")


def _checked(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"no such file: {path}", "use a run file in TREC format")
    return path
