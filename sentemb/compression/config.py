"""The configurations of distillation, and what runs on documents have in common."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from sentemb.training.config.base import Beta, CheckedModel, EncoderConfig, Options, RunConfig, Seed, Seeds

MOST_TEXTS = 200_000
"""Number of texts that the teacher encodes by default."""
Storage = Literal["float32", "float16", "int8"]
"""Number formats of a table of token vectors."""


class StaticOptions(CheckedModel):
    """Options of a static student.

    Raises:
        InputError: A field is unknown, or its value has the wrong type or lies outside its range.

    Example:
        >>> StaticOptions(dimension=128).dtype
        'int8'
    """

    dimension: int = Field(256, ge=2, description="Dimensions of a static student, at most the teacher's.")
    vocabulary: int = Field(52_000, ge=1000, description="Maximum vocabulary size of a static student.")
    dtype: Storage = Field("int8", description="Number format of a static student's table.")
    sentences: int = Field(
        MOST_TEXTS, ge=1, description="Maximum number of sentences that the teacher encodes."
    )
    steps: int = Field(
        1000,
        ge=2,
        description="Refinement steps of 1,024 texts: half before words and pairs become tokens, half after.",
    )
    seed: Seed = Field(0, description="Random seed.")


class DocumentsConfig(BaseModel):
    """The fields of a run that trains an encoder on documents, next to those of `EncoderConfig`."""

    text_column: str | None = Field(
        None, description="Column with the text of the documents. Default: text, or the only text column."
    )
    title_column: str | None = Field(
        None,
        description="Column with the title, which is put before the text. `none`: do not use a title. "
        "Default: title, if it exists.",
    )
    data_dir: str | None = Field(None, description="Folder with data sets; SENTEMB_DATA by default.")
    pooling: str | None = Field(
        None,
        description="Pooling of a pretrained transformer that does not define one: cls, mean, max, "
        "last-token, first-last, last-2, ...",
    )
    weight_decay: float = Field(0.01, ge=0, description="Decoupled weight decay of matrices.")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="Decay rates of AdamW's moments.")
    epsilon: float = Field(1e-8, gt=0, description="AdamW's epsilon.")
    clip: float = Field(1.0, ge=0, description="Maximum global gradient norm.")
    epochs: int = Field(1, ge=1, description="Passes over the texts.")
    schedule: Literal["linear", "constant"] = Field(
        "linear", description="Learning rate schedule after the warmup."
    )
    max_length: int = Field(
        128,
        ge=1,
        description="Maximum length of a training text in tokens. Longer texts are truncated.",
    )
    stopping_limit: int = Field(1, ge=1, description="Count at which the stopping rule ends the training.")


class LayeredConfig(CheckedModel, DocumentsConfig, EncoderConfig, RunConfig):
    """Configuration of a student with fewer layers; with the texts it determines the weights."""

    # The arithmetic is chosen by the machine.
    free_to_change: ClassVar[tuple[str, ...]] = ("output", "data_dir", "precision")

    recipe: str = Field("distill", description="Always `distill`, which is not a recipe of `sentemb train`.")
    base: str = Field(description="Teacher: folder, hub id or bundled model.")
    texts: str = Field(description="Documents: a file, or a folder of files.")
    layers: int = Field(
        ge=1, description="Train a transformer with N of the teacher's layers, instead of a static student."
    )
    sentences: int = Field(
        MOST_TEXTS, ge=1, description="Maximum number of sentences that the teacher encodes."
    )
    loss: str = Field(
        "CosineDistillationLoss", description="Loss between the vectors of student and teacher."
    )
    loss_options: Options = Field({}, description="Options of the loss.")
    max_steps: int | None = Field(None, ge=2, description="Number of steps of 64 texts. Default: one epoch.")
    batch_size: int = Field(64, ge=1, le=2**31 - 1, description="Texts per step.")
    learning_rate: float = Field(3e-4, ge=0, description="Peak learning rate.")
    warmup: float = Field(
        0.05, ge=0, le=0.99, description="Share of the steps over which the learning rate rises."
    )
    stopping: Literal["drops", "patience", "none"] = Field("none", description="Rule for early stopping.")
    use_last: bool = Field(False, description="Keep the last checkpoint, not the best.")
    seeds: Seeds = Field((0,), description="Seeds for the texts and their order.")
