"""The configuration of an encoder that is trained on text."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sentemb.training.config.base import EncoderConfig


class TrainConfig(EncoderConfig):
    """Everything that decides the weights of an encoder trained on text, and where they go.

    Example:
        >>> resolve("simcse", overrides={"data": "sentences.txt", "output": "mine"}).max_length
        32
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*EncoderConfig.free_to_change, "data")

    data: str = Field(description="Training texts: a file, folder, hub id or catalogue name.")
    columns: tuple[str, ...] | None = Field(
        None,
        description="Text columns in the order that the loss expects. By default those of the catalogue "
        "entry, the only column, or the column `text` or `sentence`.",
    )
    label: str | None = Field(
        None, description="Label column of labelled pairs: 1 for paraphrases, 0 for other pairs."
    )
    deduplicate: bool = Field(
        False, description="Remove duplicate rows. Labelled pairs are always deduplicated."
    )
    dev: str = Field(
        "stsb",
        description="Dev set that selects the best checkpoint: a catalogue name, a file of scored pairs, "
        "`sentemb-pairs` for the bundled ones, or `none`. If STS-B is not available, your own sentences are "
        "trained with the bundled pairs.",
    )
    eval_steps: int = Field(ge=1, description="Optimizer steps between evaluations and between checkpoints.")
    data_dir: str | None = Field(None, description="Folder of local data sets. SENTEMB_DATA by default.")
