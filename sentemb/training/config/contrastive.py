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

    data: str = Field(description="Training text: a file, folder, hub id or catalogue name.")
    columns: tuple[str, ...] | None = Field(
        None,
        description="Columns of the data in the order of the loss's inputs; by default those of a catalogue "
        "entry, the only column, or `text` or `sentence`.",
    )
    label: str | None = Field(
        None, description="Column of labelled pairs with 1 for paraphrases and 0 for others."
    )
    deduplicate: bool = Field(False, description="Drop repeated rows; labelled pairs are always cleaned.")
    dev: str = Field(
        "stsb",
        description="Dev set that chooses the best checkpoint: a catalogue name, a file of scored pairs, or "
        "`none`.",
    )
    eval_steps: int = Field(ge=1, description="Optimizer steps between evaluations, and between checkpoints.")
    data_dir: str | None = Field(None, description="Folder of local data sets; SENTEMB_DATA by default.")
