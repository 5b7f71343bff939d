"""The configuration of masked language modelling."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.training.config.base import RunConfig, Seeds


class PretrainConfig(RunConfig):
    """Everything that decides the weights of a masked language model, and where they go.

    Example:
        >>> resolve("mlm", overrides={"corpus": ["sentences.txt"], "output": "mine"}).batch_size
        32
    """

    # Where a run ends and what it writes down may change when it is resumed.
    free_to_change: ClassVar[tuple[str, ...]] = (
        *("output", "cache", "precision"),
        *("max_steps", "max_minutes", "save_minutes", "log_steps"),
    )

    corpus: tuple[str, ...] = Field(
        min_length=1,
        description="Text files (.txt, .txt.gz, .txt.xz; one document a line) or folders of them.",
    )
    base: str | None = Field(
        None, description="Model to continue from; by default a new BERT and its vocabulary are made."
    )
    stack_to: int | None = Field(None, ge=1, description="Repeat the base's layers up to this number.")
    exclude: tuple[str, ...] = Field(
        (), description="Files of sentences that no training line may contain, such as test sets."
    )
    cache: str | None = Field(None, description="Where tokenised text is kept; the run folder by default.")
    vocabulary: int = Field(16_000, ge=1, description="Pieces of a new tokenizer.")
    layers: int = Field(
        6, ge=1, description="Of a new BERT, which has up to 1,000 million weights (sentemb --limit)."
    )
    width: int = Field(256, ge=1, description="Of a new BERT.")
    heads: int = Field(4, ge=1, description="Of a new BERT.")
    inner_width: int = Field(1024, ge=1, description="Of a new BERT's feed-forward layers.")
    positions: int = Field(128, ge=1, description="Of a new BERT; those beyond `length` stay untrained.")
    initialise: Literal["cooccurrence", "random"] = Field(
        "cooccurrence", description="Token embeddings of a new BERT."
    )
    embedding_scale: float = Field(
        0.05, gt=0, description="Standard deviation of a rare token's co-occurrence vector."
    )
    length: int = Field(128, ge=1, description="Tokens per row.")
    layout: Literal["packed", "documents"] = Field(
        "packed",
        description="`packed` cuts the stream of documents into full blocks; `documents` is one row a "
        "document, for models that cannot keep packed documents apart.",
    )
    masking_rate: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="Share of pieces to predict; BERT's is 0.15. Efficient recipes take up to 0.4 (Wettig et "
        "al., Should You Mask 15% in Masked Language Modeling?, EACL 2023).",
    )
    embedding_rate: float = Field(
        1.0, ge=0, le=1, description="Factor of the learning rate for the token embeddings."
    )
    dropout: float = Field(
        0.0,
        ge=0,
        le=1,
        description="During pre-training; 0 suits text that is seen about once. The saved configuration "
        "keeps the model's own rate for the training that follows.",
    )
    max_minutes: float | None = Field(
        None, gt=0, description="End after this wall time; the learning rate reaches zero there."
    )
    save_minutes: float = Field(5.0, gt=0, description="Between checkpoints.")
    log_steps: int = Field(50, ge=1, description="Between lines of metrics.")
    validation_share: float = Field(0.002, gt=0, lt=1, description="Share of documents held out.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="`auto` measures which one the machine multiplies faster in."
    )
    seeds: Seeds = Field((0,), description="Of initialisation, order, masks and dropout.")

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.stack_to is not None and self.base is None:
            raise InputError("stack_to without a base", "set layers for a new model")
        if self.base is None:
            layer = 4 * self.width**2 + 2 * self.width * self.inner_width
            weights = self.layers * layer + (self.vocabulary + self.positions) * self.width
            refuse_above("weights", weights / 1e6, "layers, width, inner_width, vocabulary, positions")
        return self
