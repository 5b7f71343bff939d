"""Tasks that are not about the documents, which adaptation may make worse."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sentence_transformers import SentenceTransformer

from sentemb.adaptation.held_out import RememberingSearcher
from sentemb.data.bundled_text import bundled_pairs, bundled_questions
from sentemb.data.docstrings import stdlib_documents
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.data.sts import stsb_dev
from sentemb.evaluation.evaluator import STSEvaluator
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.suites import RETRIEVAL

logger = logging.getLogger(__name__)

PAIRS, QUESTIONS = "general pairs", "questions on Python"
_MOST = 1000  # documents beside those that answer a question


class ForgettingCheck:
    """Measure two tasks that are not about the user's documents.

    Spearman's correlation x 100 on STS-B's dev pairs, or on the package's pairs if STS-B is not in the data
    folder; and NDCG@10 x 100 of the package's plain questions on its excerpt of Python's documentation.

    Args:
        limit: Points that an encoder may lose on each task.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
    """

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
    chosen = {*answers, *others[:: max(1, len(others) // _MOST)]}
    return retrieval_set(
        {name: text for name, text in documents.items() if name in chosen},
        {number: one.text for number, one in questions.items()},
        {number: {name: 1 for name in one.answers if name in answers} for number, one in questions.items()},
        name=QUESTIONS,
    )
