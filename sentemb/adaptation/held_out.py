"""Queries generated from held-out documents, and general tasks, by which an adaptation is measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from sentemb.adaptation.pairs import allows_pair
from sentemb.data.bundled_text import bundled_pairs, bundled_questions, stdlib_documents
from sentemb.data.documents import Document, split_documents
from sentemb.data.generated_queries import CHOOSING, generate_queries
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.data.sts import stsb_dev
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Role, Vectors
from sentemb.errors import InputError
from sentemb.evaluation.choosing.calibration import FITTED_QUERIES
from sentemb.evaluation.evaluator import STSEvaluator
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.retrieval.searchers import DenseSearcher
from sentemb.evaluation.suites import RETRIEVAL

logger = logging.getLogger(__name__)

FEWEST_DOCUMENTS = 100
"""With fewer documents, nothing can be said about the result."""
NDCG, RECALL = MEASURES = ("ndcg@10", "recall@100")
_SHARE, _LEAST, _MOST = 0.2, 30, 500  # of the documents that are held out
_SEARCHED = 2000  # documents
PAIRS, QUESTIONS = "general pairs", "questions on Python"
_MOST_OTHERS = 1000  # documents next to those that answer a question

Scores = Mapping[tuple[str, str], npt.NDArray[np.float64]]
"""The score x 100 of each query, by kind of query and measure."""


class Parts(NamedTuple):
    """Documents to train on, and a set of queries from the others for each kind of `CHOOSING`."""

    train: list[Document]
    queries: list[RetrievalSet]


def hold_out(documents: Sequence[Document], *, language: str, seed: int) -> Parts:
    """Hold out 20 % of the documents, at least 30 and at most 500, and generate queries from them."""
    if len(documents) < FEWEST_DOCUMENTS:
        raise InputError(
            f"{len(documents)} documents are too few to say whether adaptation helps",
            f"provide {FEWEST_DOCUMENTS} or more; a document a line or row, or a file each",
        )
    train, held = _divide(documents, seed)
    others = [train[number] for number in np.random.default_rng(seed).permutation(len(train))]
    queries = generate_queries(
        held,
        count=FITTED_QUERIES,
        most=len(held),
        seed=seed,
        language=language,
        kinds=CHOOSING,
        distractors=others[: max(0, _SEARCHED - len(held))],
    )
    if not queries:
        raise InputError(
            "too few documents have six words or more, so that no queries can be generated from them",
            "provide longer documents, or more of them",
        )
    return Parts(train, queries)


def most_pairs_of_a_batch(documents: Sequence[Document], *, seed: int) -> int:
    """Return how many training documents allow a pair: a batch takes each document at most once."""
    return max(1, sum(map(allows_pair, _divide(documents, seed)[0])))


def _divide(documents: Sequence[Document], seed: int) -> tuple[list[Document], list[Document]]:
    """Return the documents to train on, and the held-out ones."""
    size = min(max(_LEAST, round(_SHARE * len(documents))), _MOST)
    return split_documents(documents, share=min(1.0, size / max(len(documents), 1)), seed=seed)


class RememberingSearcher(DenseSearcher):
    """Encode each text once, however many sets have it, in bfloat16 where that is faster."""

    def __init__(self, model: SentenceTransformer, *, name: str) -> None:
        super().__init__(load_encoder(model, precision="reduced"))
        self.name = name
        self._known: dict[tuple[str, str], Any] = {}

    def vectors(self, texts: Sequence[str], role: Role, *, progress: bool = False) -> Vectors:
        """See `DenseSearcher.vectors`."""
        new = list(dict.fromkeys(text for text in texts if (role, text) not in self._known))
        if new:
            found = super().vectors(new, role, progress=progress)
            self._known.update(((role, text), vector) for text, vector in zip(new, found, strict=True))
        return np.stack([self._known[role, text] for text in texts])


def scores_on(model: SentenceTransformer, queries: Sequence[RetrievalSet]) -> Scores:
    """Return the scores of a model on sets of queries."""
    # Only the queries of `neighbors` have the id of a document, which is theirs.
    record = evaluate_retrieval(RememberingSearcher(model, name="candidate"), queries, exclude_same_ids=True)
    ranks = load_predictions(record)[0]
    return {
        (data.name, measure): 100 * query_scores(measure, ranks[data.name], data.gold)
        for data in queries
        for measure in MEASURES
    }


class ForgettingCheck:
    """Measure two tasks that are not about the documents: STS-B's dev pairs, and questions on Python."""

    def __init__(self, limit: float, data_dir: str | None) -> None:
        self.limit = limit
        pairs = stsb_dev(data_dir)
        if pairs is None:
            logger.warning(
                "STS-B's dev set is not in the data folder; using the package's sentence pairs instead"
            )
        self._pairs = STSEvaluator(pairs=[pairs or bundled_pairs()], name="general", write_csv=False)
        self._questions = _questions()

    def scores(self, model: SentenceTransformer) -> dict[str, float]:
        """Return the score of a model on each task."""
        correlation = 100 * float(self._pairs(model)[self._pairs.primary_metric])
        record = evaluate_retrieval(RememberingSearcher(model, name="general"), [self._questions])
        return {PAIRS: correlation, QUESTIONS: record.score(QUESTIONS, RETRIEVAL.measure)}

    def passes(self, after: Mapping[str, float], before: Mapping[str, float]) -> bool:
        """Return whether no score falls by more than the limit."""
        return all(score >= before[name] - self.limit for name, score in after.items())


def _questions() -> RetrievalSet:
    """Return the questions, the documents that answer them, and others."""
    questions = {str(number): one for number, one in enumerate(bundled_questions())}
    documents = {str(one.id): one.text for one in stdlib_documents()}
    answers = {name for one in questions.values() for name in one.answers if name in documents}
    others = [name for name in documents if name not in answers]
    chosen = {*answers, *others[:: max(1, len(others) // _MOST_OTHERS)]}
    return retrieval_set(
        {name: text for name, text in documents.items() if name in chosen},
        {number: one.text for number, one in questions.items()},
        {number: {name: 1 for name in one.answers if name in answers} for number, one in questions.items()},
        name=QUESTIONS,
    )
