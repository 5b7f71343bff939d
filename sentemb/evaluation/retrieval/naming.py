"""From the name of a system to its searcher: the only place that knows all kinds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentemb.encoding import TextEncoder
from sentemb.encoding.resolve import name_of
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.ranking import SUFFIX
from sentemb.evaluation.retrieval.reranking import RERANK, RerankSearcher
from sentemb.evaluation.retrieval.searchers import (
    BM25,
    PREFIXES,
    DenseSearcher,
    HybridSearcher,
    KeywordSearcher,
    SavedRuns,
    Searcher,
)
from sentemb.evaluation.retrieval.token_vectors import TokenSearcher
from sentemb.modules.cross_encoder import load_cross_encoder
from sentemb.modules.source import check_kind, find_source


def searcher_of(
    name: str,
    load: Callable[[str], TextEncoder],
    stored: ShardFolder | None = None,
    *,
    device: str | None = None,
) -> Searcher:
    """Return the searcher that a name means.

    Names are `bm25`; `hybrid:MODEL`, `hybrid-fitted:MODEL` or `hybrid-rrf:MODEL`; a run in TREC's format
    (`.trec`, `.run`), a folder of runs; a model, also a late-interaction or sparse one; or, with any of these
    as the first stage, `rerank:FIRST+CROSS-ENCODER`. `stored` has the documents' vectors of the model, and
    `device` is that of models that `load` does not load.
    """
    if name == BM25:
        return KeywordSearcher()
    if name.startswith(RERANK):
        first, model = split_reranked(name)
        searcher = searcher_of(first, load, stored, device=device)
        return RerankSearcher(searcher, load_cross_encoder(model, device=device), name=name_of(model))
    prefix = _prefix(name)
    if prefix:
        return HybridSearcher(load(name.removeprefix(prefix)), PREFIXES[prefix], stored)
    if is_run(name):
        if not Path(name).exists():
            raise InputError(f"no such file: {name}", "use a run file in TREC format")
        return SavedRuns(Path(name))
    if stored is None and _has_token_vectors(name):
        return TokenSearcher(name, device=device)
    return DenseSearcher(load(name), stored)


def model_of(name: str) -> str | None:
    """Return the encoder that a system needs; None of BM25, saved runs and models without one vector a text.

    Raises:
        InputError: The cross-encoder of a second stage does not exist, or is of another kind.
    """
    if name.startswith(RERANK):
        name, model = split_reranked(name)
        check_kind(find_source(model), "cross-encoder")
        return model_of(name)
    if name == BM25 or is_run(name):
        return None
    model = name.removeprefix(_prefix(name))
    return None if model == name and _has_token_vectors(name) else model


def split_reranked(name: str) -> tuple[str, str]:
    """Return the first stage and the cross-encoder of `rerank:FIRST+CROSS-ENCODER`."""
    first, _, model = name.removeprefix(RERANK).rpartition("+")
    if not first or not model or first.startswith(RERANK):
        raise InputError(
            f"{name} is not of the form rerank:FIRST+CROSS-ENCODER",
            "write a system and the folder or hub id of a cross-encoder, such as "
            "rerank:bm25+cross-encoder/ms-marco-MiniLM-L6-v2",
        )
    return first, model


def first_stage(name: str) -> str:
    """Return the system whose documents a second stage ranks; a system without one as it is."""
    return split_reranked(name)[0] if name.startswith(RERANK) else name


def is_run(name: str) -> bool:
    """Return whether a name is that of saved runs."""
    path = Path(name)
    return path.suffix in (SUFFIX, ".run") or (path.is_dir() and any(path.glob(f"*{SUFFIX}")))


def _has_token_vectors(name: str) -> bool:
    """Return whether a model is a late-interaction or sparse one."""
    with suppress(InputError):  # word vectors, endpoints, and what does not exist
        return find_source(name).kind in ("sparse", "multi-vector")
    return False


def _prefix(name: str) -> str:
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
