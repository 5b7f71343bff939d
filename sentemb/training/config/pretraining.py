"""The configuration of masked language modelling."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from sentemb.limits import refuse_above
from sentemb.training.config.base import CheckedModel, RunConfig, Seeds


class PretrainConfig(CheckedModel, RunConfig):
    """Everything that decides the weights of a masked language model, and where they go.

    Example:
        >>> resolve("mlm", overrides={"corpus": ["sentences.txt"], "output": "mine"}).batch_size
        32
    """

    # Where a run ends and what it writes down may change when it is resumed.
    free_to_change: ClassVar[tuple[str, ...]] = (
        *("output", "precision"),
        *("max_steps", "max_minutes", "save_minutes", "log_steps"),
    )

    corpus: tuple[str, ...] = Field(
        min_length=1,
        description="Text files (.txt, .txt.gz, .txt.xz; one document per line) or folders of such files.",
    )
    base: str | None = Field(
        None,
        description="Model to continue pretraining. By default a new BERT and its vocabulary are created.",
    )
    exclude: tuple[str, ...] = Field(
        (), description="Files of sentences that must not occur in training lines, such as test sets."
    )
    vocabulary: int = Field(16_000, ge=1, description="Vocabulary size of a new tokenizer.")
    layers: int = Field(
        6,
        ge=1,
        description="Number of layers of a new BERT. A new BERT has at most 1,000 million weights.",
    )
    width: int = Field(256, ge=1, description="Hidden size of a new BERT.")
    heads: int = Field(4, ge=1, description="Attention heads of a new BERT.")
    inner_width: int = Field(1024, ge=1, description="Feed-forward size of a new BERT.")
    positions: int = Field(
        128, ge=1, description="Position embeddings of a new BERT. Those beyond `length` stay untrained."
    )
    initialise: Literal["cooccurrence", "random"] = Field(
        "cooccurrence", description="Initialization of the token embeddings of a new BERT."
    )
    length: int = Field(128, ge=1, description="Tokens per row.")
    masking_rate: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="Fraction of tokens to mask. BERT uses 0.15. Efficient recipes use up to 0.4 (Wettig et "
        "al., Should You Mask 15% in Masked Language Modeling?, EACL 2023).",
    )
    embedding_rate: float = Field(
        1.0, ge=0, le=1, description="Multiplier of the learning rate for the token embeddings."
    )
    dropout: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Dropout during pretraining. 0 suits text that is seen about once. The saved "
        "configuration keeps the model's own rate for later fine-tuning.",
    )
    max_minutes: float | None = Field(
        None, gt=0, description="Time limit in minutes. The learning rate decays to zero at its end."
    )
    save_minutes: float = Field(5.0, gt=0, description="Minutes between checkpoints.")
    log_steps: int = Field(50, ge=1, description="Optimizer steps between metric lines.")
    validation_share: float = Field(
        0.002, gt=0, lt=1, description="Fraction of documents held out for validation."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Floating-point type. `auto` measures which one is faster on this machine."
    )
    seeds: Seeds = Field((0,), description="Random seed for initialization, data order, masking and dropout.")

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.base is None:
            layer = 4 * self.width**2 + 2 * self.width * self.inner_width
            weights = self.layers * layer + (self.vocabulary + self.positions) * self.width
            refuse_above("weights", weights / 1e6, "layers, width, inner_width, vocabulary, positions")
        return self
