"""Training rows for the contrast of labelled pairs: two texts and what is known of their paraphrases."""

from __future__ import annotations

import logging

import numpy as np
from datasets import Dataset

from sentemb.data.columns import LABEL
from sentemb.data.paraphrases import PAIR_COLUMNS, clean_pairs, load_pairs, paraphrase_components
from sentemb.training.config import TrainConfig

logger = logging.getLogger(__name__)


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
