"""STS and retrieval as sentence-transformers evaluators, and what all evaluators share."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb._compat import BaseEvaluator, get_rank
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.geometry import measure_geometry
from sentemb.evaluation.measures import CORRELATIONS
from sentemb.evaluation.retrieval.evaluate import check_names, search
from sentemb.evaluation.retrieval.metrics import METRICS, query_scores
from sentemb.evaluation.retrieval.ranking import judged_ranks
from sentemb.evaluation.retrieval.searchers import DenseSearcher
from sentemb.evaluation.sts import (
    EncodedSets,
    Similarities,
    UndefinedScoreError,
    check_gold,
    cosines_of,
    encode_sets,
    load_sets,
    score_pairs,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)


class SetsEvaluator(BaseEvaluator):
    """Mean of metrics over data sets: metric names, results file and model card."""

    def __init__(self, name: str, kind: str, primary_metric: str, *, write_csv: bool) -> None:
        super().__init__()
        self.name, self.write_csv = name, write_csv
        self.csv_file = f"{re.sub(r'[^0-9A-Za-z._-]+', '_', name or kind)}_results.csv"
        self.primary_metric = f"{name}_{primary_metric}" if name else primary_metric

    @property
    def best_metric_key(self) -> str:
        """The exact value for `metric_for_best_model`."""
        return f"eval_{self.primary_metric}"

    def report(
        self,
        model: SentenceTransformer,
        names: Sequence[str],
        scores: Sequence[Mapping[str, float]],
        output_path: str | None,
        epoch: float,
        steps: int,
        *,
        scale: float = 1.0,
        more: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Return the mean of each score over the sets, those of each of several sets, and more metrics."""
        metrics = {key: sum(one[key] for one in scores) / len(scores) / scale for key in scores[0]}
        if len(scores) > 1:
            for name, own in zip(names, scores, strict=True):
                metrics |= {f"{name}_{key}": value / scale for key, value in own.items()}
        metrics |= more or {}
        # Trainers other than sentence-transformers' run an evaluator on every rank; one of them writes.
        if output_path is not None and self.write_csv and get_rank() == 0:
            path = Path(output_path) / self.csv_file
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            with path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if is_new:
                    writer.writerow(["epoch", "steps", *metrics])
                writer.writerow([epoch, steps, *metrics.values()])
        prefixed: dict[str, float] = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, prefixed, epoch, steps)
        return prefixed


class STSEvaluator(SetsEvaluator):
    """Cosine similarity against gold scores, for any sentence-transformers trainer.

    Metrics are named and scaled as by sentence-transformers' own evaluator: `<name>_spearman_cosine` and
    `<name>_pearson_cosine` in [-1, 1], under the protocol `all` (subsets concatenated). With several sets
    these are the mean over the sets, and each set also has `<name>_<set>_spearman_cosine` and
    `<name>_<set>_pearson_cosine`. With `geometry`, `<name>_alignment`, `<name>_uniformity`,
    `<name>_anisotropy` and `<name>_effective_rank` of all sets together are added, from the same encoding.

    The data is read and checked in the constructor, so that an error shows before training starts. An
    encoder that has collapsed or diverged has no correlation: it scores 0.0 with a warning, since NaN
    compares as neither better nor worse and would leave a run without a best checkpoint. Vectors that are not
    finite do not have a geometry.

    Args:
        sets: Names of sets; by default STS-B, whose dev split the papers select on.
        split: The split, `dev` by default.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        pairs: Sets of your own, in place of `sets`, `split` and `data_dir`.
        name: Prefix of every metric; `sts-<split>` by default.
        geometry: Add the geometry of the vectors, see `sentemb.evaluation.geometry`.
        write_csv: Append each result to `<name>_results.csv` where the trainer gives an output folder.

    Raises:
        InputError: Unknown set, unusable data, or gold scores that are all equal.

    Example:
        >>> evaluator = STSEvaluator(("pairs.csv",))
        >>> evaluator.best_metric_key
        'eval_sts-all_spearman_cosine'
    """

    def __init__(
        self,
        sets: Sequence[str] = ("stsb",),
        *,
        split: str = "dev",
        data_dir: str | Path | None = None,
        pairs: Sequence[ScoredPairs] | None = None,
        name: str | None = None,
        geometry: bool = False,
        write_csv: bool = True,
    ) -> None:
        self.pairs = load_sets(sets, split=split, data_dir=data_dir) if pairs is None else list(pairs)
        if not self.pairs:
            raise InputError("pairs is empty", "pass at least one ScoredPairs")
        for one in self.pairs:
            check_gold(one)
        name = name if name is not None else f"sts-{self.pairs[0].split}"
        super().__init__(name, "sts", "spearman_cosine", write_csv=write_csv)
        self.geometry = geometry
        self.similarities: list[Similarities] = []

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        encoded: EncodedSets | None = None
        try:
            encoded = encode_sets(load_encoder(model), self.pairs)
            self.similarities = cosines_of(encoded)
            both = zip(self.pairs, self.similarities, strict=True)
            scores = [
                {f"{x.metric}_cosine": x.value for x in score_pairs(*one) if x.protocol == "all"}
                for one in both
            ]
        except UndefinedScoreError as error:
            logger.warning("%s: %s; all scores of this evaluation are set to 0.0", self.name, error.message)
            scores = [{f"{metric}_cosine": 0.0 for metric in CORRELATIONS}] * len(self.pairs)
        more = measure_geometry(encoded)._asdict() if self.geometry and encoded is not None else None
        names = [one.name for one in self.pairs]
        return self.report(model, names, scores, output_path, epoch, steps, scale=100, more=more)

    @property
    def description(self) -> str:
        """The evaluator's title in a model card."""
        return "Semantic Textual Similarity"

    def get_config_dict(self) -> dict[str, Any]:
        """Return sets, split, protocol and number of pairs, for the model card."""
        return {
            "sets": [one.name for one in self.pairs],
            "split": self.pairs[0].split,
            "protocol": "all",
            "pairs": sum(len(one.gold) for one in self.pairs),
        }


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
