"""Questions to an index of the standard library: keyword, dense, hybrid and adapted hybrid search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sentemb.data.bundled_text import Question, bundled_questions
from sentemb.data.documents import Document
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.evaluation import (
    Record,
    compare,
    evaluate_retrieval,
    load_predictions,
    system_of,
)
from sentemb.evaluation.comparison import DRAWS, Difference
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.retrieval import Hits, query_scores
from sentemb.search import Hit, SearchIndex
from sentemb.search.searching import Mode

KEYWORD, HYBRID, ADAPTED = "keyword", "hybrid", "adapted hybrid"
DEV, TEST = "dev", "test"
METRICS = ("hit@10", "recall@10", "mrr@10")
SHOWN = 3
"""Number of hits that are shown for a question."""
_DEPTH = 10
_SET = "standard-library"


class Estimate(NamedTuple):
    """A mean over questions x 100, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True)
class Answers:
    """Results of all search modes.

    Args:
        questions: All questions.
        documents: Number of searched documents.
        hits: Best hits of each question, by search mode.
        ranks: Rank of each question's first relevant document, by search mode; 0 if it is not in the top ten.
        scores: Score by search mode, split and metric.
        gain: Difference in hit@10 on `test` between the last mode and keyword search.
    """

    questions: list[Question]
    documents: int
    hits: dict[str, list[list[Hit]]]
    ranks: dict[str, list[int]]
    scores: dict[tuple[str, str, str], Estimate]
    gain: Difference

    def verdict(self) -> str:
        """Summarize the score of the last search mode and its difference from keyword search."""
        found, low, high = self.scores[self.ways[-1], TEST, "hit@10"]
        less, more = self.gain.interval or (self.gain.size, self.gain.size)
        return (
            f"{self.ways[-1].capitalize()} search finds a relevant document among the first ten hits for "
            f"{found:.0f}% of {self.gain.items} held-out questions (95% interval {low:.0f} to {high:.0f}). "
            f"The difference from keyword search is {self.gain.size:+.0f} points ({less:+.0f} to "
            f"{more:+.0f}), p = {self.gain.p:.2g}."
        )

    @property
    def ways(self) -> list[str]:
        """The search modes; the last is the recommended one."""
        return list(self.hits)


class IndexSearcher:
    """A search mode of an index as a searcher for `evaluate_retrieval`; it returns at most ten documents."""

    def __init__(self, name: str, index: SearchIndex, mode: Mode) -> None:
        self.name, self._index, self._mode = name, index, mode

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the index's encoder and the search mode."""
        return f"{self._index.manifest.encoder.fingerprint}-{self._mode}"

    @property
    def dimension(self) -> int | None:
        """Length of a vector."""
        return None if self._mode == "keyword" else self._index.manifest.dimension

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        places = {name: place for place, name in enumerate(data.document_ids)}
        found = self.ask(data.queries, min(depth, _DEPTH))
        return [
            Hits(
                np.array([places[str(hit.id)] for hit in hits], dtype=np.int32),
                np.array([hit.score for hit in hits], dtype=np.float32),
            )
            for hits in found
        ]

    def ask(self, questions: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the best hits of each question."""
        return self._index.search(questions, count, mode=self._mode)

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {"encoder": self._index.manifest.encoder.name, "mode": self._mode}


def ask_everything(
    documents: Sequence[Document], index: SearchIndex, *, adapted: SearchIndex | None = None
) -> Answers:
    """Ask all questions in every search mode.

    Args:
        documents: The documents of the indexes.
        index: Index for keyword, dense and hybrid search.
        adapted: Index for hybrid search with an encoder that was adapted to the documents. The keyword and
            dense weights of both indexes are fitted on the questions of `dev`.

    Returns:
        The hits and their scores.
    """
    known = {document.id for document in documents}
    # The questions whose relevant documents exist in this version of Python.
    named = (
        one._replace(answers=tuple(name for name in one.answers if name in known))
        for one in bundled_questions()
    )
    questions = [one for one in named if one.answers]
    splits = {split: [one for one in questions if one.split == split] for split in (DEV, TEST)}
    ways = [
        IndexSearcher(KEYWORD, index, "keyword"),
        IndexSearcher(index.manifest.encoder.name, index, "dense"),
        IndexSearcher(HYBRID, index, "hybrid"),
        *([] if adapted is None else [IndexSearcher(ADAPTED, adapted, "hybrid")]),
    ]
    for one in filter(None, (index, adapted)):
        one.fit([question.text for question in splits[DEV]], [question.answers for question in splits[DEV]])
    sets = {split: _judged(split, some, documents) for split, some in splits.items()}
    records = {
        (way.name, split): evaluate_retrieval(way, [one]) for way in ways for split, one in sets.items()
    }
    compared = ways[0].name, ways[-1].name
    on_test = [records[name, TEST] for name in compared]
    found = {way.name: way.ask([one.text for one in questions], _DEPTH) for way in ways}
    return Answers(
        questions=questions,
        documents=len(documents),
        hits={name: [hits[:SHOWN] for hits in some] for name, some in found.items()},
        ranks={
            name: [_rank(one, hits) for one, hits in zip(questions, some, strict=True)]
            for name, some in found.items()
        },
        scores={
            (*key, metric): _estimate(record, metric) for key, record in records.items() for metric in METRICS
        },
        gain=compare(*(system_of(on_test, name, measure=METRICS[0]) for name in compared)).headline,
    )


def _judged(split: str, questions: Sequence[Question], documents: Sequence[Document]) -> RetrievalSet:
    return retrieval_set(
        {str(document.id): document.text for document in documents},
        {one.text: one.text for one in questions},
        {one.text: dict.fromkeys(one.answers, 1) for one in questions},
        name=_SET,
        split=split,
    )


def _rank(question: Question, hits: Sequence[Hit]) -> int:
    """Return the rank of the first relevant document, from 1; 0 if it is not found."""
    return next((rank for rank, hit in enumerate(hits, 1) if hit.id in question.answers), 0)


def _estimate(record: Record, metric: str) -> Estimate:
    predictions = load_predictions(record)
    values = query_scores(metric, predictions.values[_SET], predictions.gold[_SET])
    drawn = bootstrap(
        metric, values[None], np.zeros(len(values)), draws=DRAWS, generator=np.random.default_rng(0)
    )
    low, high = np.quantile(drawn[0], (0.025, 0.975))
    return Estimate(*(100 * float(value) for value in (values.mean(), low, high)))
