"""Rank encoders, keyword search and hybrids for one's own documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from sentemb.data.pseudo_queries import MOST_DOCUMENTS
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.choosing.choice import Candidate, Choice
from sentemb.evaluation.choosing.costs import costs_of
from sentemb.evaluation.choosing.leaks import SETS, find_leaks, known_sets
from sentemb.evaluation.choosing.questions import Questions, cut_from, graded_pairs, judged_queries
from sentemb.evaluation.choosing.ranking import rank
from sentemb.evaluation.choosing.trust import measured_trust
from sentemb.evaluation.comparison import DRAWS, check_draws
from sentemb.evaluation.environment import environment
from sentemb.evaluation.retrieval.hybrid import PREFIXES, HybridSearcher
from sentemb.evaluation.retrieval.named import is_run, searcher_of
from sentemb.evaluation.retrieval.searchers import DenseSearcher, Searcher
from sentemb.evaluation.runner.run import shared_vectors
from sentemb.evaluation.schema import Record

QUERIES = 300
"""Queries of each kind that are cut from the documents."""
_FITTED = next(prefix for prefix, weights in PREFIXES.items() if weights == "judged")
_OPTIONS = {"count": "queries", "most": "documents"}  # what the command calls them
Progress = Callable[[str, int, int], None]


def choose(
    models: Sequence[Any],
    texts: str | Path | Sequence[str] | None = None,
    *,
    judged: str | Path | RetrievalSet | None = None,
    pairs: str | Path | None = None,
    text_column: str | None = None,
    title_column: str | None = None,
    count: int | None = None,
    most: int | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    confidence: float = 0.95,
    leaks: Sequence[str] = SETS,
    load: Callable[[str], TextEncoder] = load_encoder,
    data_dir: str | Path | None = None,
    command: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Rank systems for one's own documents: by queries cut from them, judged queries or graded pairs.

    Args:
        models: Anything that `load_encoder` takes, `bm25`, `hybrid:MODEL`, `hybrid-rrf:MODEL`, for judged
            queries `hybrid-fitted:MODEL`, or searchers; for pairs encoders alone.
        texts: Documents, as of `read_own_documents` or as strings; queries are cut from them.
        judged: A folder in BEIR's layout with judgements, a set of the catalogue, or one that is read.
        pairs: A file of scored pairs. One of these three is needed.
        text_column: Of `texts`, as `title_column`, `count` and `most`: they are refused where nothing is cut.
        title_column: Of the documents.
        count: Queries of each kind; `QUERIES` by default.
        most: Documents that are searched, drawn from all; `MOST_DOCUMENTS` by default.
        seed: Of all draws.
        draws: Resamples and exchanges of queries.
        confidence: Of the intervals.
        leaks: Known sets that one's texts are looked for in, as of `find_leaks`; none skips this.
        load: Loads a model.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        command: The command line, for the record.
        progress: Takes the stage and how many of how many steps are done.

    Returns:
        The choice.

    Raises:
        InputError: A system or a file cannot be used, a number is out of range, an argument has no effect, or
            the documents are too few to cut queries from.

    Example:
        >>> choice = choose(["bert-mini", "bm25", "hybrid:bert-mini"], "docs.jsonl")  # doctest: +SKIP
        >>> print(choice.verdict())  # doctest: +SKIP
    """
    if isinstance(models, str) or not models:
        raise InputError("no system was given", "name two or more, such as bm25 and all-MiniLM-L6-v2")
    if sum(one is not None for one in (texts, judged, pairs)) != 1:
        raise InputError(
            "systems are ranked by documents, judged queries or pairs",
            "give exactly one of texts, judged and pairs (--texts, --judged, --pairs)",
        )
    tell: Progress = progress or (lambda stage, done, total: None)
    began = time.perf_counter()
    # A slip must not cost minutes of encoding.
    known_sets(leaks)
    check_draws(draws, confidence)
    if texts is not None:
        _refuse_fitted(models)
        questions = cut_from(
            texts,
            count=QUERIES if count is None else count,
            most=MOST_DOCUMENTS if most is None else most,
            seed=seed,
            text_column=text_column,
            title_column=title_column,
            data_dir=data_dir,
        )
    else:
        cutting = {"text_column": text_column, "title_column": title_column, "count": count, "most": most}
        _refuse_given(cutting, "--pairs" if judged is None else "--judged")
        questions = (
            judged_queries(judged, data_dir) if judged is not None else graded_pairs(str(pairs), data_dir)
        )
    with ExitStack() as stack:

        @cache
        def shared(model: Any) -> TextEncoder:
            loaded = load(model) if isinstance(model, str) else load_encoder(model)
            encoder: TextEncoder = stack.enter_context(shared_vectors(loaded, None))
            return encoder

        searchers = _searchers(models, shared, questions)
        records: dict[str, Record] = {}
        for number, (name, searcher) in enumerate(searchers.items()):
            tell(name, number, len(searchers))
            records[name] = questions.answers(searcher)
        tell("timing", len(searchers), len(searchers))
        costs = costs_of(searchers, questions.texts, questions.language)
    systems = [questions.system(record, name) for name, record in records.items()]
    ranking = rank(systems, draws=draws, confidence=confidence, seed=seed, progress=tell)
    found = find_leaks(questions.own, leaks, data_dir=data_dir, progress=tell) if leaks else None
    given = {
        name: str(model) if isinstance(model, (str, Path)) else name
        for name, model in zip(searchers, models, strict=True)
    }
    return Choice(
        basis=questions.basis,
        measure=questions.measure,
        confidence=confidence,
        candidates=tuple(
            Candidate(
                name=name,
                given=given[name],
                place=ranking.places[name],
                score=ranking.scores[name],
                interval=ranking.intervals[name],
                sets=dict(ranking.sets[name]),
                cost=costs[name],
            )
            for name in ranking.names
        ),
        pairs=ranking.pairs,
        datasets=next(iter(records.values())).datasets,
        documents=0 if questions.basis == "pairs" else len(questions.texts),
        trust=measured_trust() if questions.basis == "documents" else None,
        leaks=found,
        environment=environment({"choose": time.perf_counter() - began}, command),
    )


def _refuse_given(cutting: Mapping[str, Any], basis: str) -> None:
    """Refuse what says how queries are cut, where none are."""
    for name, value in cutting.items():
        if value is not None:
            option = f"--{_OPTIONS.get(name, name).replace('_', '-')} ({name})"
            raise InputError(
                f"{option} is for queries cut from documents, and with {basis} none are cut", "leave it out"
            )


def _refuse_fitted(models: Sequence[Any]) -> None:
    """Refuse a hybrid that would fit its weight on the cut queries it is scored on: at use there are none."""
    for model in models:
        name = model.name if isinstance(model, HybridSearcher) else str(model)
        if name.startswith(_FITTED):
            raise InputError(
                f"{name} fits its weight on judged queries, and there are none",
                f"take hybrid:{name.removeprefix(_FITTED)}, or give judged queries (--judged)",
            )


def _searchers(
    models: Sequence[Any], load: Callable[[Any], TextEncoder], questions: Questions
) -> dict[str, Searcher]:
    """The systems by their names."""
    found: dict[str, Searcher] = {}
    for model in models:
        named = isinstance(model, (str, Path))
        if named and is_run(str(model)):
            raise InputError(
                f"{model} is a saved run, which answers other queries", "name encoders, bm25, hybrids"
            )
        searcher: Searcher = (
            searcher_of(str(model), load)
            if named
            else model
            if hasattr(model, "search")
            else DenseSearcher(load(model))
        )
        if searcher.name in found:
            raise InputError(f"two systems are called {searcher.name}", "rename the folder of one")
        found[searcher.name] = searcher
    return found
