"""Training rows and the dev set of a configuration, refused early where they cannot work."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset
from safetensors.numpy import load_file, save_file

from sentemb.data import load_columns
from sentemb.data.bundled_text import BUNDLED_PAIRS, bundled_pairs
from sentemb.data.columns import LABEL
from sentemb.data.paraphrases import PAIR_COLUMNS, clean_pairs, load_pairs, paraphrase_components
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.errors import InputError
from sentemb.evaluation import STSEvaluator
from sentemb.evaluation.comparison import DRAWS
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.sts import Similarities
from sentemb.training.config import TrainConfig
from sentemb.training.recipes import RECIPES

logger = logging.getLogger(__name__)

EVALUATED_FILE = "dev_similarities.safetensors"


def load_rows(config: TrainConfig) -> Dataset:
    """Load the training rows."""
    if config.label is not None:
        return load_pair_rows(config)
    rows = load_columns(config.data, config.columns, data_dir=config.data_dir)
    recipe = RECIPES.get(config.recipe)
    if recipe is not None and len(rows.column_names) < recipe.least_columns:
        raise InputError(
            f"the recipe {config.recipe} needs pairs, but only one column of {config.data} is "
            f"selected: {rows.column_names[0]!r}",
            "list the columns in order: --columns ANCHOR,POSITIVE[,HARD_NEGATIVE]",
        )
    first = first_occurrences(rows)
    if len(first) == 1:
        raise InputError(
            f"{config.data} contains a single unique row"
            + ("" if len(rows) == 1 else f", {len(rows)} times"),
            "provide two or more unique texts for contrastive training",
        )
    if config.deduplicate:
        rows = rows.select(first)
    elif 2 * len(first) < len(rows):
        logger.warning(
            "%s contains many duplicates: only %d of %d rows are unique, and duplicates serve as "
            "each other's negatives. Set deduplicate to remove them.",
            config.data,
            len(first),
            len(rows),
        )
    return rows


def load_pair_rows(config: TrainConfig) -> Dataset:
    """Load labelled pairs, without those that contradict or repeat each other."""
    pairs = load_pairs(
        config.data, columns=config.columns, label=config.label or LABEL, data_dir=config.data_dir
    )
    kept, counts = clean_pairs(pairs)
    if counts.kept < counts.rows or counts.implied:
        logger.warning("%s: %s", config.data, counts)
    labels = np.column_stack([kept.labels, paraphrase_components(kept)])  # (n, 3)
    first, second = PAIR_COLUMNS
    return Dataset.from_dict({first: kept.texts, second: kept.pairs, LABEL: labels.tolist()})


def first_occurrences(rows: Dataset) -> list[int]:
    """Where each unique row comes first; Arrow looks at the texts where they lie."""
    table: pa.Table = rows.with_format("arrow")[:]
    names = table.column_names
    places = table.append_column("place", pa.array(np.arange(len(table))))
    first = places.group_by(names, use_threads=False).aggregate([("place", "min")])
    return sorted(first["place_min"].to_pylist())


class DevEvaluator(STSEvaluator):
    """Keeps the similarities of every evaluation, so that two of them can be compared."""

    def __init__(self, pairs: ScoredPairs) -> None:
        super().__init__(pairs=[pairs], name="dev", geometry=True, write_csv=False)
        self.evaluated: dict[int, Similarities] = {}

    def __call__(self, model: Any, output_path: Any = None, epoch: float = -1, steps: int = -1) -> Any:
        """Evaluate; `steps` is -1 for a model beside the training."""
        self.similarities = []
        metrics = super().__call__(model, output_path, epoch, steps)
        if self.similarities:
            self.evaluated[steps] = self.similarities[0]
        return metrics

    def save(self, folder: Path, *, best: int | None, last: int) -> None:
        """Keep what the verdict of a resumed run needs: the first, the best and the last evaluation."""
        kept = {str(step): found for step, found in self.evaluated.items() if step in (0, best, last)}
        save_file(kept, folder / EVALUATED_FILE)

    def load(self, folder: Path) -> None:
        """Take what was kept, beside what this process has evaluated."""
        if (folder / EVALUATED_FILE).exists():  # not in the checkpoints of earlier versions
            self.evaluated |= {int(step): found for step, found in load_file(folder / EVALUATED_FILE).items()}

    def interval(self, first: int, second: int) -> tuple[float, float] | None:
        """The paired bootstrap's 95 % interval of the change in Spearman's correlation between two steps."""
        if first == second or not {first, second} <= self.evaluated.keys():
            return None
        scores = bootstrap(
            "spearman",
            np.stack([self.evaluated[first], self.evaluated[second]]),
            self.pairs[0].gold,
            draws=DRAWS,
            generator=np.random.default_rng(0),
        )
        low, high = np.nanquantile(scores[1] - scores[0], (0.025, 0.975))
        return float(low), float(high)


def dev_evaluator(config: TrainConfig) -> DevEvaluator | None:
    """Make the evaluator that chooses the best checkpoint."""
    if config.dev == "none":
        return None
    if config.dev == BUNDLED_PAIRS:
        return DevEvaluator(bundled_pairs())
    try:
        pairs = load_scored_pairs(config.dev, split="dev", data_dir=config.data_dir)
        return DevEvaluator(pairs)
    except InputError as error:
        hint = (
            "set --data-dir, use a file of scored pairs as --dev, or --dev none to keep the weights of "
            "the last step"
        )
        raise InputError(
            f"dev set {config.dev}: {error.message}", f"{error.hint}, or {hint}" if error.hint else hint
        ) from None
