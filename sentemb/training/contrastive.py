"""A run that trains an encoder on text and chooses its weights by a similarity dev set."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from safetensors.numpy import load_file, save_file

from sentemb._compat import BaseEvaluator
from sentemb._uris import local_path
from sentemb.data import describe_source, load_columns
from sentemb.data.bundled_text import BUNDLED_PAIRS, bundled_pairs
from sentemb.data.columns import LABEL
from sentemb.data.pairs import PAIR_COLUMNS, clean_pairs, load_pairs, paraphrase_components
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.errors import InputError
from sentemb.evaluation import STSEvaluator
from sentemb.evaluation.comparison import DRAWS
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.sts import Similarities
from sentemb.losses import ViewCache
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.training.config import TrainConfig
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.recipes import RECIPES
from sentemb.training.session import Session
from sentemb.training.trainer import bucketed_by_length

logger = logging.getLogger(__name__)

_SIMILARITIES = "dev_similarities.safetensors"


class ContrastiveSession(Session):
    """A run that trains an encoder on text and chooses its weights by a similarity dev set.

    The baseline is the base as shipped. It is the state before the first step, unless a pooling is named for
    an encoder that has one: then it is evaluated separately. If nothing beats it, it is the result.
    """

    config: TrainConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(
        self, config: TrainConfig, *, progress: ConsoleProgress | None, view_cache: ViewCache | None
    ) -> None:
        rows = load_rows(config)
        self.evaluator = dev_evaluator(config)
        self.eval_steps = config.eval_steps
        super().__init__(config, progress=progress, rows=rows)
        whole_pass = config.max_steps is None or config.max_steps * config.batch_size >= len(rows)
        encoder = bucketed_by_length(self.model)
        self.loss = build_loss(config, encoder, view_cache=view_cache, whole_pass=whole_pass)
        self.negatives = negatives_per_anchor(
            self.loss, batch_size=config.batch_size, columns=self.text_columns
        )
        self.remarks = () if self.negatives is None else (f"negatives per anchor: {self.negatives}",)
        if getattr(self.loss, "view_cache", None) is not None:
            self.remarks += ("computing the views of the frozen encoder before the first step",)
        self.shipped: float | None = None

    def prepare(self) -> None:
        """Evaluate the base as shipped, if training does not start from it."""
        config = self.config
        if self.evaluator is not None and config.pooling is not None and is_finished_encoder(config.base):
            with torch.random.fork_rng():
                scores = self.evaluator(load(config.base))
            self.shipped = scores[self.evaluator.primary_metric]
            self.announce(f"the base {config.base} before training: dev Spearman {100 * self.shipped:.2f}")

    def describe(self) -> dict[str, Any]:
        """Return for the record what the run is trained on."""
        config = self.config
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(self.rows or ()))
        return {"data": data, "negatives_per_anchor": self.negatives, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fall back to the base if nothing beat it."""
        if self.evaluator is None:
            return kept
        base, first = (self.scores[0], 0) if self.shipped is None else (self.shipped, -1)
        kept = replace(kept, base_score=base, interval=self.evaluator.interval(first, kept.step))
        if kept.dev_score is None or self.config.use_last:
            return kept
        if self.shipped is not None and kept.dev_score <= self.shipped:
            self.model = load(self.config.base)
            kept = replace(kept, step=0, dev_score=self.shipped, interval=None)
        if kept.step == 0:
            self.announce(
                f"no checkpoint beat the base model on the dev set, so {kept.output} is the base, "
                f"{public_name(self.config.base)}"
            )
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""
        return {
            "set": local_path(self.config.dev).name,
            "metric": "Spearman correlation of cosine similarities, protocol all",
            "initial": scores[0] if scores else None,
            "base": kept.base_score,
            "interval": kept.interval,
        }


def load_rows(config: TrainConfig) -> Dataset:
    """Load the training rows; raise InputError if there is nothing to contrast."""
    if config.label is not None:  # labelled pairs, without those that contradict or repeat each other
        pairs = load_pairs(config.data, columns=config.columns, label=config.label, data_dir=config.data_dir)
        kept, counts = clean_pairs(pairs)
        if counts.kept < counts.rows or counts.implied:
            logger.warning("%s: %s", config.data, counts)
        labels = np.column_stack([kept.labels, paraphrase_components(kept)])  # (n, 3)
        first, second = PAIR_COLUMNS
        return Dataset.from_dict({first: kept.texts, second: kept.pairs, LABEL: labels.tolist()})
    rows = load_columns(config.data, config.columns, data_dir=config.data_dir)
    recipe = RECIPES.get(config.recipe)
    if recipe is not None and len(rows.column_names) < recipe.least_columns:
        raise InputError(
            f"the recipe {config.recipe} needs pairs, but only one column of {config.data} is "
            f"selected: {rows.column_names[0]!r}",
            "list the columns in order: --columns ANCHOR,POSITIVE[,HARD_NEGATIVE]",
        )
    unique = first_occurrences(rows)
    if len(unique) == 1:
        repeated = "" if len(rows) == 1 else f", {len(rows)} times"
        raise InputError(
            f"{config.data} contains a single unique row{repeated}",
            "provide two or more unique texts for contrastive training",
        )
    if config.deduplicate:
        return rows.select(unique)
    if 2 * len(unique) < len(rows):
        logger.warning(
            "%s contains many duplicates: only %d of %d rows are unique, and duplicates serve as "
            "each other's negatives. Set deduplicate to remove them.",
            config.data,
            len(unique),
            len(rows),
        )
    return rows


def first_occurrences(rows: Dataset) -> list[int]:
    """Return where each unique row comes first; Arrow compares the texts where they lie."""
    table: pa.Table = rows.with_format("arrow")[:]
    places = table.append_column("place", pa.array(np.arange(len(table))))
    first = places.group_by(table.column_names, use_threads=False).aggregate([("place", "min")])
    return sorted(first["place_min"].to_pylist())


class DevEvaluator(BaseEvaluator):
    """Keep the similarities of every STS evaluation, so that two of them can be compared."""

    def __init__(self, pairs: ScoredPairs) -> None:
        super().__init__()
        self.sts = STSEvaluator(pairs=[pairs], name="dev", geometry=True, write_csv=False)
        self.name, self.primary_metric = self.sts.name, self.sts.primary_metric
        self.best_metric_key = self.sts.best_metric_key
        self.evaluated: dict[int, Similarities] = {}

    def __call__(self, model: Any, output_path: Any = None, epoch: float = -1, steps: int = -1) -> Any:
        """Evaluate; `steps` is -1 for a model that is not in training."""
        self.sts.similarities = []
        metrics = self.sts(model, output_path, epoch, steps)
        if self.sts.similarities:
            self.evaluated[steps] = self.sts.similarities[0]
        return metrics

    def save_state(self, folder: Path, *, best: int | None, last: int) -> None:
        """Write what the verdict of a resumed run needs: the first, the best and the last evaluation."""
        kept = {str(step): found for step, found in self.evaluated.items() if step in (0, best, last)}
        save_file(kept, folder / _SIMILARITIES)

    def load_state(self, folder: Path) -> None:
        """Take what was written, next to what this process has evaluated."""
        self.evaluated |= {int(step): found for step, found in load_file(folder / _SIMILARITIES).items()}

    def interval(self, first: int, second: int) -> tuple[float, float] | None:
        """Return the paired bootstrap's 95 % interval of the change in Spearman between two steps."""
        if first == second or not {first, second} <= self.evaluated.keys():
            return None
        scores = bootstrap(
            "spearman",
            np.stack([self.evaluated[first], self.evaluated[second]]),
            self.sts.pairs[0].gold,
            draws=DRAWS,
            generator=np.random.default_rng(0),
        )
        low, high = np.nanquantile(scores[1] - scores[0], (0.025, 0.975)).tolist()
        return low, high


def dev_evaluator(config: TrainConfig) -> DevEvaluator | None:
    """Make the evaluator that chooses the best checkpoint."""
    if config.dev == "none":
        return None
    if config.dev == BUNDLED_PAIRS:
        return DevEvaluator(bundled_pairs())
    try:
        return DevEvaluator(load_scored_pairs(config.dev, split="dev", data_dir=config.data_dir))
    except InputError as error:
        hints = [error.hint] if error.hint else []
        hints += ["set --data-dir, use a file of scored pairs as --dev"]
        hints += ["--dev none to keep the weights of the last step"]
        raise InputError(f"dev set {config.dev}: {error.message}", ", or ".join(hints)) from None
