"""STS as a sentence-transformers evaluator."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb._compat import BaseEvaluator, get_rank
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.geometry import measure_geometry
from sentemb.evaluation.results_csv import append_row, csv_name
from sentemb.evaluation.scoring import Similarities, UndefinedScoreError, check_gold, score_pairs
from sentemb.evaluation.sts import EncodedSets, cosines_of, encode_sets, load_sets

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)

_METRICS = ("spearman", "pearson")


class STSEvaluator(BaseEvaluator):
    """Cosine similarity against gold scores, for any sentence-transformers trainer.

    Metrics are named and scaled as by sentence-transformers' own evaluator: `<name>_spearman_cosine` and
    `<name>_pearson_cosine` in [-1, 1], under the protocol `all` (subsets concatenated). With several sets
    these are the mean over the sets, and each set has `<name>_<set>_spearman_cosine` and
    `<name>_<set>_pearson_cosine` beside. With `geometry`, `<name>_alignment`, `<name>_uniformity`,
    `<name>_anisotropy` and `<name>_effective_rank` of all sets together say how the vectors lie, from the
    same encoding.

    The data is read and checked in the constructor, so that an error shows before training starts. An
    encoder that has collapsed or diverged has no correlation: it scores 0.0 with a warning, since NaN
    compares as neither better nor worse and would leave a run without a best checkpoint. Vectors that are not
    finite have no geometry either, and it is left out.

    Args:
        sets: Names of sets; by default STS-B, whose dev split the papers select on.
        split: The split, `dev` by default.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        pairs: Sets of your own, in place of `sets`, `split` and `data_dir`.
        name: Prefix of every metric; `sts-<split>` by default.
        geometry: Add how the vectors lie, see `sentemb.evaluation.geometry`.
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
        super().__init__()
        self.pairs = load_sets(sets, split=split, data_dir=data_dir) if pairs is None else list(pairs)
        if not self.pairs:
            raise InputError("pairs is empty", "pass at least one ScoredPairs")
        for one in self.pairs:
            check_gold(one)
        self.name = name if name is not None else f"sts-{self.pairs[0].split}"
        self.geometry = geometry
        self.write_csv = write_csv
        self.csv_file = csv_name(self.name or "sts")
        self.primary_metric = self._prefixed("spearman_cosine")
        self.similarities: list[Similarities] = []

    @property
    def best_metric_key(self) -> str:
        """The exact value for `metric_for_best_model`."""
        return f"eval_{self._prefixed('spearman_cosine')}"

    def __call__(
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: float = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        metrics = self._metrics(model)
        # Trainers other than sentence-transformers' run an evaluator on every rank; one of them writes.
        if output_path is not None and self.write_csv and get_rank() == 0:
            append_row(Path(output_path) / self.csv_file, metrics, epoch, steps)
        prefixed: dict[str, float] = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, prefixed, epoch, steps)
        return prefixed

    def _metrics(self, model: SentenceTransformer) -> dict[str, float]:
        encoded: EncodedSets | None = None
        try:
            encoded = encode_sets(load_encoder(model), self.pairs)
            self.similarities = list(cosines_of(encoded))
            scores = [_headline(*each) for each in zip(self.pairs, self.similarities, strict=True)]
        except UndefinedScoreError as error:
            logger.warning("%s: %s; all scores of this evaluation are set to 0.0", self.name, error.message)
            scores = [dict.fromkeys(_METRICS, 0.0)] * len(self.pairs)
        metrics = {
            f"{metric}_cosine": sum(one[metric] for one in scores) / len(scores) / 100 for metric in _METRICS
        }
        if len(scores) > 1:
            for one, score in zip(self.pairs, scores, strict=True):
                metrics |= {f"{one.name}_{metric}_cosine": score[metric] / 100 for metric in _METRICS}
        if self.geometry and encoded is not None:
            metrics |= measure_geometry(encoded)._asdict()
        return metrics

    def _prefixed(self, metric: str) -> str:
        return f"{self.name}_{metric}" if self.name else metric

    @property
    def description(self) -> str:
        """The evaluator's title in a model card."""
        return "Semantic Textual Similarity"

    def get_config_dict(self) -> dict[str, Any]:
        """What was evaluated, for the model card.

        Returns:
            Sets, split, protocol and number of pairs.
        """
        return {
            "sets": [one.name for one in self.pairs],
            "split": self.pairs[0].split,
            "protocol": "all",
            "pairs": sum(len(one.gold) for one in self.pairs),
        }


def _headline(pairs: ScoredPairs, similarities: Similarities) -> dict[str, float]:
    """Correlations x 100 under the protocol `all`."""
    return {one.metric: one.value for one in score_pairs(pairs, similarities) if one.protocol == "all"}
