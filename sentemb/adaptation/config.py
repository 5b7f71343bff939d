"""The configuration of an adaptation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from sentemb.compression.config import DocumentsConfig
from sentemb.training.config.base import CheckedModel, EncoderConfig, Options, RunConfig, Seeds

STATIC, FINISHED, RAW = "static", "finished", "raw"
"""Kinds of bases: token vectors alone, a sentence encoder, a transformer without sentence-level training."""
SETTINGS: dict[str, dict[str, Any]] = {
    STATIC: {"learning_rate": 0.02, "batch_size": 256, "max_steps": 120, "save_steps": 40},
    FINISHED: {"learning_rate": 6e-5, "batch_size": 32, "max_steps": 150, "save_steps": 75},
    RAW: {"learning_rate": 2e-4, "batch_size": 64, "max_steps": 200, "save_steps": 100},
}
"""Settings of each kind of base."""
SHARES: dict[str, tuple[float, ...]] = {STATIC: (0.25, 0.5, 0.75), FINISHED: (0.25, 0.5), RAW: (0.5, 1.0)}
"""Shares of the trained weights that are tried, by kind of base; the rest is the base's (see `blend`)."""
DEFAULT_TEACHER, NO_TEACHER = "static-mini", "none"
"""The teacher of a pretrained base for English documents; and what turns it off."""
TAUGHT: dict[str, Any] = {"loss": "InBatchDistillationLoss", "loss_options": {"temperature": 0.05}}
"""Settings with a teacher."""


class AdaptConfig(CheckedModel, DocumentsConfig, EncoderConfig, RunConfig):
    """Everything but the documents that decides the weights of an adapted encoder, and where they go.

    Example:
        >>> values = {"batch_size": 256, "max_steps": 120, "save_steps": 40, "learning_rate": 0.02}
        >>> AdaptConfig(base="static-mini", output="mine", documents="docs.jsonl", **values).minutes
        20.0
    """

    # The time limit, and the precision, which the machine decides.
    free_to_change: ClassVar[tuple[str, ...]] = ("output", "data_dir", "minutes", "precision")

    recipe: str = Field("adapt", description="Always `adapt`, which is not a recipe of `sentemb train`.")
    documents: str = Field(description="The documents: a file, or a folder of files.")
    minutes: float = Field(20.0, gt=0, description="Time limit for training, in minutes.")
    teacher: str | None = Field(
        None,
        description="Stronger encoder whose similarity scores the model learns, or none. Default: "
        "static-mini for English texts and a pretrained base, else none.",
    )
    layers: int | None = Field(None, ge=1, description="Train only the last N layers. Default: all.")
    max_forgetting: float | None = Field(
        None,
        ge=0,
        description="Maximum loss in points on general sentence pairs and on bundled questions about Python. "
        "Not measured by default.",
    )
    loss: str = Field("SimCSELoss", description="Contrast of pairs, negatives within the batch.")
    loss_options: Options = Field({"temperature": 0.05, "head": None}, description="Arguments of the loss.")
    warmup: float = Field(0.1, ge=0, le=0.99, description="Share of the steps with a rising learning rate.")
    batch_size: int = Field(ge=1, description="Number of pairs per step. The default depends on the base.")
    learning_rate: float = Field(ge=0, description="Peak learning rate. The default depends on the base.")
    max_steps: int = Field(ge=1, description="Number of optimizer steps. The default depends on the base.")
    save_steps: int = Field(ge=1, description="Steps between two checkpoints.")
    stopping: Literal["none"] = Field("none", description="Training is not stopped early.")
    use_last: bool = Field(True, description="The last weights are the trained ones.")
    seeds: Seeds = Field((1,), description="Seed for the pairs, the splits and dropout.")
