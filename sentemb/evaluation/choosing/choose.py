"""Rank encoders, keyword search and hybrids for your own documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.data.generated_queries import MOST_DOCUMENTS
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.choosing.calibration import CONFIDENCE, Evidence, predictor_for
from sentemb.evaluation.choosing.choice import (
    MEASURES,
    Advice,
    Candidate,
    Choice,
    Ranking,
    costs_of,
    rank_measured,
    rank_predicted,
    score_intervals,
    set_scores,
)
from sentemb.evaluation.choosing.leaks import SETS, find_leaks, known_sets
from sentemb.evaluation.choosing.questions import (
    Questions,
    family_of,
    generated_from,
    graded_pairs,
    is_unmeasured,
    judged_queries,
    log_weights,
    read_query_log,
    scores_by_query,
    skipped_kinds,
)
from sentemb.evaluation.comparison import DRAWS, check_draws
from sentemb.evaluation.environment import environment
from sentemb.evaluation.retrieval.naming import first_stage, is_run, searcher_of
from sentemb.evaluation.retrieval.searchers import PREFIXES, DenseSearcher, HybridSearcher, Searcher
from sentemb.evaluation.runner import shared_vectors
from sentemb.evaluation.schema import Record

QUERIES = 300
"""Queries of each kind that are generated from the documents."""
_FITTED = next(prefix for prefix, weights in PREFIXES.items() if weights == "judged")
_OPTIONS = {"count": "queries", "most": "documents"}  # what the command calls them
Progress = Callable[[str, int, int], None]


def choose(
    models: Sequence[Any],
    texts: str | Path | Sequence[str] | None = None,
    *,
    query_log: str | Path | Sequence[str] | None = None,
    judged: str | Path | RetrievalSet | None = None,
    pairs: str | Path | None = None,
    text_column: str | None = None,
    title_column: str | None = None,
    count: int | None = None,
    most: int | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    confidence: float | None = None,
    leaks: Sequence[str] = SETS,
    load: Callable[[str], TextEncoder] = load_encoder,
    device: str | None = None,
    data_dir: str | Path | None = None,
    command: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Rank systems for your own documents.

    With documents, queries are generated from them, and the differences on real queries are predicted from
    the scores. Queries with qrels that are also given update the prediction. Alone, queries with qrels or
    graded pairs rank the systems by themselves.

    Args:
        models: Anything that `load_encoder` takes, `bm25`, `hybrid:MODEL`, `hybrid-rrf:MODEL`,
            `rerank:FIRST+CROSS-ENCODER`, late-interaction and sparse models, for queries with qrels alone
            `hybrid-fitted:MODEL`, or searchers; for pairs encoders alone.
        texts: Documents, as of `read_unique_documents` or as strings.
        query_log: Queries of your users without qrels, or a file of them, a query a line: generated queries
            count the more the nearer their length and the rarity of their terms are to the log's. With
            `texts` only.
        judged: A folder in BEIR's layout with qrels, a set of the catalogue, or one that is already read.
        pairs: A file of graded pairs, without `texts` and `judged`.
        text_column: Column of `texts`. It is refused without `texts`, as `title_column`, `count` and `most`.
        title_column: Column of the documents' titles.
        count: Queries to generate of each kind; `QUERIES` by default.
        most: Documents to search, drawn from all; `MOST_DOCUMENTS` by default.
        seed: Seed of all draws.
        draws: Resamples and exchanges of queries with qrels or pairs.
        confidence: Level of the intervals; by default .8 for predictions and .95 otherwise.
        leaks: Known sets in which to search for your texts, as of `find_leaks`; none skips this.
        load: Loads a model.
        device: Device of models that `load` does not load: cross-encoders, late-interaction and sparse ones.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        command: The command line, for the record.
        progress: Called with the stage and how many of how many steps are done.

    Returns:
        The choice.

    Raises:
        InputError: A system or a file cannot be used, a number is out of range, an argument has no effect, or
            there are too few documents to generate queries from.

    Example:
        >>> choice = choose(["bert-mini", "bm25", "hybrid:bert-mini"], "docs.jsonl")  # doctest: +SKIP
        >>> print(choice.verdict())  # doctest: +SKIP
    """
    if isinstance(models, str) or not models:
        raise InputError("no system was given", "name two or more, such as bm25 and all-MiniLM-L6-v2")
    if (texts is None and judged is None) == (pairs is None):
        raise InputError(
            "systems are ranked by documents, by queries with qrels, by both, or by pairs",
            "pass --texts, --judged or both, or else --pairs",
        )
    tell: Progress = progress or (lambda stage, done, total: None)
    began = time.perf_counter()
    # A slip must not cost minutes of encoding.
    known_sets(leaks)
    level = confidence if confidence is not None else CONFIDENCE if texts is not None else 0.95
    check_draws(draws, level)
    options = {"text_column": text_column, "title_column": title_column, "count": count, "most": most}
    real: Questions | None = None
    logged: list[str] = []
    if texts is not None:
        logged = [] if query_log is None else read_query_log(query_log)
        _refuse_fitted(models)
        options |= {"count": QUERIES if count is None else count}
        options |= {"most": MOST_DOCUMENTS if most is None else most}
        questions = generated_from(texts, seed=seed, data_dir=data_dir, **options)  # type: ignore[arg-type]
        real = None if judged is None else judged_queries(judged, data_dir)
    else:
        _refuse_given({"query_log": query_log, **options}, "--pairs" if judged is None else "--judged")
        questions = (
            judged_queries(judged, data_dir) if judged is not None else graded_pairs(str(pairs), data_dir)
        )
    answers: dict[str, Record] = {}
    judged_answers: list[Record] = []
    with ExitStack() as stack:

        @cache
        def shared(model: Any) -> TextEncoder:
            loaded = load(model) if isinstance(model, str) else load_encoder(model)
            encoder: TextEncoder = stack.enter_context(shared_vectors(loaded, None))
            return encoder

        searchers = _searchers(models, shared, device)
        for number, (name, searcher) in enumerate(searchers.items()):
            tell(name, number, len(searchers))
            answers[name] = questions.record(searcher)
            if real is not None:
                judged_answers.append(real.record(searcher))
        tell("timing", len(searchers), len(searchers))
        costs = costs_of(searchers, questions.texts, questions.language)
    systems = [questions.system(record, name) for name, record in answers.items()]
    sets = {system.name: set_scores(system) for system in systems}
    reliability, intervals = None, {}
    if texts is None:
        ranking = rank_measured(systems, draws=draws, confidence=level, seed=seed, progress=tell)
        intervals = score_intervals(systems, draws=draws, confidence=level, seed=seed)
    else:
        families = [family_of(searcher) for searcher in searchers.values()]
        weights = log_weights(logged, questions.sets, questions.texts) if logged else None
        evidence = Evidence.of(families, scores_by_query([*answers.values()], questions.sets), weights)
        predictor = predictor_for([one.name for one in questions.sets], log=bool(logged))
        prediction = predictor.predict(evidence)
        scored = None if real is None else scores_by_query(judged_answers, real.sets)[real.sets[0].name]
        ranking = rank_predicted([*searchers], prediction, scored, confidence=level)
        reliability = predictor.reliability
    found = find_leaks(questions.own, leaks, data_dir=data_dir, progress=tell) if leaks else None
    named = {
        name: str(model) if isinstance(model, (str, Path)) else name
        for name, model in zip(searchers, models, strict=True)
    }
    return Choice(
        basis=questions.basis,
        measure=questions.measure,
        confidence=level,
        candidates=tuple(
            Candidate(
                name=name,
                given=named[name],
                place=ranking.places[name],
                score=float(np.mean([*sets[name].values()])),
                ranks=ranks,
                interval=interval,
                behind=_behind(ranking, name),
                sets=sets[name],
                cost=costs[name],
            )
            for name in ranking.names
            for interval, ranks in [intervals.get(name, (None, None))]
        ),
        pairs=ranking.pairs,
        datasets=next(iter(answers.values())).datasets,
        documents=0 if questions.basis == "pairs" else len(questions.texts),
        judged=0 if real is None else len(real.sets[0]),
        logged=len(logged),
        unmeasured=tuple(name for name, one in searchers.items() if texts is not None and is_unmeasured(one)),
        skipped=tuple(skipped_kinds(questions.sets)) if texts is not None else (),
        reliability=reliability,
        advice=_advice(ranking, questions),
        leaks=found,
        environment=environment({"choose": time.perf_counter() - began}, command),
    )


def _behind(ranking: Ranking, name: str) -> tuple[float, float, float] | None:
    """Return how far a system is behind the best, and the interval."""
    best = ranking.names[0]
    if name == best:
        return None
    pair = ranking.pair(best, name)
    sign = 1 if pair.better == best else -1
    low, high = sorted(sign * end for end in pair.interval)
    return sign * pair.difference, low, high


def _advice(ranking: Ranking, questions: Questions) -> Advice | None:
    """Return what the evidence on the first two systems could have shown."""
    pair = ranking.pair(*ranking.names[:2]) if len(ranking.names) > 1 else None
    if pair is None or pair.detectable is None:
        return None
    kind = "queries with qrels (--judged)" if questions.basis == "documents" else "queries with qrels"
    kind = "pairs" if questions.basis == "pairs" else kind
    measure = MEASURES[questions.measure]
    return Advice(pair.difference, pair.detectable, pair.missing, measure, kind)


def _refuse_given(options: Mapping[str, Any], basis: str) -> None:
    """Refuse options of the generated queries if none are generated."""
    for name, value in options.items():
        if value is not None:
            option = f"--{_OPTIONS.get(name, name).replace('_', '-')} ({name})"
            raise InputError(
                f"{option} is for generated queries, and with {basis} alone none are generated",
                "add --texts, or drop the option",
            )


def _refuse_fitted(models: Sequence[Any]) -> None:
    """Refuse a hybrid that would fit its weight on the generated queries that score it."""
    for model in models:
        part = getattr(model, "first", model)
        name = part.name if isinstance(part, HybridSearcher) else first_stage(str(model))
        if name.startswith(_FITTED):
            raise InputError(
                f"{name} fits its weight on queries with qrels, which documents alone do not have",
                f"use hybrid:{name.removeprefix(_FITTED)}, or --judged without --texts",
            )


def _searchers(
    models: Sequence[Any], load: Callable[[Any], TextEncoder], device: str | None
) -> dict[str, Searcher]:
    """Return the systems by their names."""
    found: dict[str, Searcher] = {}
    for model in models:
        named = isinstance(model, (str, Path))
        if named and is_run(first_stage(str(model))):
            raise InputError(
                f"{model} is a saved run, which answers other queries", "name encoders, bm25, hybrids"
            )
        searcher: Searcher = (
            searcher_of(str(model), load, device=device)
            if named
            else model
            if hasattr(model, "search")
            else DenseSearcher(load(model))
        )
        if searcher.name in found:
            raise InputError(f"two systems are called {searcher.name}", "rename the folder of one")
        found[searcher.name] = searcher
    return found
