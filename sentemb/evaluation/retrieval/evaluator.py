"""Retrieval as a sentence-transformers evaluator."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.evaluator import SetsEvaluator
from sentemb.evaluation.retrieval.evaluate import check_names, search
from sentemb.evaluation.retrieval.metrics import METRICS, query_scores
from sentemb.evaluation.retrieval.ranking import judged_ranks
from sentemb.evaluation.retrieval.searchers import DenseSearcher

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)


class RetrievalEvaluator(SetsEvaluator):
    """Exact search on queries with qrels, for any sentence-transformers trainer.

    Metrics are trec_eval's, graded, over all queries with qrels, in [0, 1]: `<name>_ndcg@10`,
    `<name>_mrr@10`, `<name>_map`, `<name>_recall@100` and so on. With several sets these are the mean over
    the sets, and each set also has `<name>_<set>_ndcg@10`. Queries and documents get the model's own prompts.

    The data is read and checked in the constructor, so that an error shows before training starts. An encoder
    that has diverged scores 0.0 with a warning, since NaN compares as neither better nor worse.

    Args:
        sets: Names of sets or folders of your own, as `load_retrieval` takes them, or sets that are already
            read.
        split: Split of their qrels; `dev` keeps test sets out of the choice of a checkpoint.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        exclude_same_ids: Exclude the document with the query's own id.
        name: Prefix of every metric; `retrieval-<split>` by default.
        write_csv: Append each result to `<name>_results.csv` where the trainer gives an output folder.

    Raises:
        InputError: No set, an unknown one, or unusable data.

    Example:
        >>> evaluator = RetrievalEvaluator(["my-set"], split="test")
        >>> evaluator.best_metric_key
        'eval_retrieval-test_ndcg@10'
    """

    def __init__(
        self,
        sets: Sequence[str | Path | RetrievalSet],
        *,
        split: str = "dev",
        data_dir: str | Path | None = None,
        exclude_same_ids: bool = False,
        name: str | None = None,
        write_csv: bool = True,
    ) -> None:
        if isinstance(sets, (str, Path)) or not sets:
            raise InputError("sets must be a list", 'pass a list, such as ["tldr"]')
        self.sets = [
            one if isinstance(one, RetrievalSet) else load_retrieval(one, split=split, data_dir=data_dir)
            for one in sets
        ]
        check_names([one.name for one in self.sets])
        name = name if name is not None else f"retrieval-{self.sets[0].split}"
        super().__init__(name, "retrieval", METRICS[0], write_csv=write_csv)
        self.exclude_same_ids = exclude_same_ids

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        names, scores = [one.name for one in self.sets], [self._scores(model, one) for one in self.sets]
        return self.report(model, names, scores, output_path, epoch, steps)

    def _scores(self, model: SentenceTransformer, data: RetrievalSet) -> dict[str, float]:
        try:
            hits = search(DenseSearcher(load_encoder(model)), data, exclude_same_ids=self.exclude_same_ids)
        except NonFiniteError as error:
            logger.warning("%s: %s; all its scores are set to 0.0", data.name, error.message)
            return dict.fromkeys(METRICS, 0.0)
        ranks = judged_ranks(hits, data)
        return {metric: float(query_scores(metric, ranks, data.gold).mean()) for metric in METRICS}

    @property
    def description(self) -> str:
        """The evaluator's title in a model card."""
        return "Information Retrieval"

    def get_config_dict(self) -> dict[str, Any]:
        """Return sets, split, and numbers of documents and queries, for the model card."""
        return {
            "sets": [one.name for one in self.sets],
            "split": self.sets[0].split,
            "documents": sum(len(one.documents) for one in self.sets),
            "queries": sum(map(len, self.sets)),
        }
