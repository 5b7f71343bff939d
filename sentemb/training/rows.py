"""Training rows and the dev set of a configuration, refused early where they cannot work."""

from __future__ import annotations

import logging

from datasets import Dataset

from sentemb.data import load_columns
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError
from sentemb.evaluation import STSEvaluator
from sentemb.training.config import TrainConfig
from sentemb.training.pairs import load_pair_rows

logger = logging.getLogger(__name__)


def load_rows(config: TrainConfig) -> Dataset:
    """Load the training rows."""
    if config.label is not None:
        return load_pair_rows(config)
    rows = load_columns(config.data, config.columns, data_dir=config.data_dir)
    unique: dict[int, int] = {}  # hash of a row to its first index: a million texts need not be held
    for index, values in enumerate(zip(*(rows[name] for name in rows.column_names), strict=True)):
        unique.setdefault(hash(values), index)
    if len(unique) == 1:
        raise InputError(
            f"{config.data} holds one row" + ("" if len(rows) == 1 else f", {len(rows)} times"),
            "contrastive training needs different texts",
        )
    if config.deduplicate:
        rows = rows.select(sorted(unique.values()))
    elif 2 * len(unique) < len(rows):
        logger.warning(
            "%s repeats itself: %d of %d rows are different; repeated texts are each other's negatives. "
            "Set deduplicate to drop them.",
            config.data,
            len(unique),
            len(rows),
        )
    return rows


def dev_evaluator(config: TrainConfig) -> STSEvaluator | None:
    """Make the evaluator that chooses the best checkpoint."""
    if config.dev == "none":
        return None
    try:
        pairs = load_scored_pairs(config.dev, split="dev", data_dir=config.data_dir)
        return STSEvaluator(pairs=[pairs], name="dev", geometry=True, write_csv=False)
    except InputError as error:
        hint = "give --data-dir, a file of scored pairs as --dev, or --dev none to keep the last weights"
        raise InputError(
            f"dev set: {error.message}", f"{error.hint}, or {hint}" if error.hint else hint
        ) from None
