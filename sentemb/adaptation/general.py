"""What an encoder knows beside the documents, which adapting it may cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sentence_transformers import SentenceTransformer

from sentemb.adaptation.held_out import mean_of, ranks_of
from sentemb.data.bundled_text import bundled_pairs, bundled_questions
from sentemb.data.docstrings import stdlib_documents
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.data.sts import stsb_dev
from sentemb.evaluation.evaluator import STSEvaluator

logger = logging.getLogger(__name__)

LOSS = 1.0
"""Points that an encoder may lose on either."""
PAIRS, QUESTIONS = "general pairs", "questions on Python"
_MOST = 1000  # documents beside those that answer a question


class General:
    """Two tasks that are not of the user's documents.

    Spearman's correlation x 100 on STS-B's dev pairs, or those of the package where it is not here; and
    NDCG@10 x 100 of the package's plain questions on its excerpt of Python's documentation.

    Args:
        data_dir: The folder of data; `SENTEMB_DATA` by default.
    """

    def __init__(self, data_dir: str | None) -> None:
        pairs = stsb_dev(data_dir)
        if pairs is None:
            logger.warning("STS-B's dev set is not here: the pairs of the package stand in for it")
        self._pairs = STSEvaluator(pairs=[pairs or bundled_pairs()], name="general", write_csv=False)
        self._questions = _questions()

    def scores(self, model: SentenceTransformer) -> dict[str, float]:
        """What a model has on each task."""
        correlation = 100 * float(self._pairs(model)[self._pairs.primary_metric])
        return {PAIRS: correlation, QUESTIONS: mean_of(ranks_of(model, [self._questions], name="general"))}

    def is_kept(self, model: SentenceTransformer, before: Mapping[str, float]) -> bool:
        """Whether a model loses no more than a point of what was before."""
        return all(score >= before[name] - LOSS for name, score in self.scores(model).items())


def _questions() -> RetrievalSet:
    """The questions, the documents that answer them, and others."""
    questions = {str(number): one for number, one in enumerate(bundled_questions())}
    documents = {one.id: one.text for one in stdlib_documents()}
    answers = {name for one in questions.values() for name in one.answers if name in documents}
    others = [name for name in documents if name not in answers]
    chosen = {*answers, *others[:: max(1, len(others) // _MOST)]}
    return retrieval_set(
        {name: text for name, text in documents.items() if name in chosen},
        {number: one.text for number, one in questions.items()},
        {number: {name: 1 for name in one.answers if name in answers} for number, one in questions.items()},
        name=QUESTIONS,
    )
