"""The configuration of an encoder that is trained on pairs of a question and its passage."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sentemb.training.config.base import EncoderConfig


class PairsConfig(EncoderConfig):
    """Everything that decides the weights of an encoder trained on pairs, and where they go.

    Example:
        >>> config = resolve("pairs", overrides={"data": "pairs.jsonl", "base": "bert-mini", "output": "m"})
        >>> config.held_out
        0.15
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*EncoderConfig.free_to_change, "data")

    data: str = Field(
        description="Pairs of a question and its passage, optionally with hard negatives: a file, folder, "
        "hub id or catalogue name."
    )
    columns: tuple[str, ...] | None = Field(
        None,
        description="Columns of the question, the passage and any hard negatives. By default columns with "
        "common names, such as anchor, positive and negative, or question and answer.",
    )
    held_out: float = Field(
        0.15,
        ge=0,
        le=0.3,
        description="Fraction of the questions held out twice, 30 to 500 each time: one split selects the "
        "checkpoint, the other gives the verdict. 0 trains on all questions and keeps the weights of "
        "the last step.",
    )
    eval_steps: int | None = Field(
        None,
        ge=1,
        description="Optimizer steps between evaluations and between checkpoints. Ten evaluations per run by "
        "default.",
    )
    data_dir: str | None = Field(None, description="Folder of local data sets. SENTEMB_DATA by default.")
