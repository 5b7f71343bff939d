"""Small models that a server can have."""

from __future__ import annotations

from pathlib import Path


def cross_encoder(bert: Path, folder: Path) -> Path:
    """Write an untrained cross-encoder of one score."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    config = AutoConfig.from_pretrained(bert, num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder
