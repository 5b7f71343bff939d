"""The configurations of what is fitted on the vectors of a frozen encoder: BERT-flow and whitening."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sentemb.training.config.base import CheckedModel, Preset, Seed

OptimizerKind = Literal["adamw", "bert-adam"]
"""`bert-adam` is BERT's own: Adam without bias correction, with decoupled weight decay."""


class FlowConfig(CheckedModel):
    """The flow's shape and its training; defaults are the released configuration `l3_d3_w32`.

    Example:
        >>> FlowConfig(epochs=2).levels
        3
    """

    levels: int = Field(3, ge=1, description="Levels (l3).")
    steps: int = Field(3, ge=1, description="Steps of a level (d3).")
    width: int = Field(32, ge=1, description="Of the hidden layers in the couplings (w32).")
    coupling: Literal["additive", "affine"] = Field(
        "additive", description="`additive` as released; `affine` is the option of its code."
    )
    permutation: Literal["reverse", "learned"] = Field(
        "reverse", description="`reverse`, which the released configuration does; `learned` is Glow's."
    )
    # The first sentences of a batch initialise the flow, which takes two.
    batch_size: int = Field(32, ge=2, description="Pairs of sentences in a step.")
    epochs: int = Field(1, ge=1, description="Passes over the pairs.")
    learning_rate: float = Field(1e-3, gt=0, description="Constant.")
    weight_decay: float = Field(0.01, ge=0, description="On every weight of the flow.")
    clip: float = Field(1.0, gt=0, description="Largest global norm of the gradient.")
    optimizer: OptimizerKind = Field(
        "adamw", description="Bias-corrected AdamW; the released code has BERT's Adam."
    )
    encoder_dropout: bool = Field(
        False, description="Fit on vectors made with dropout, as the released code does unseen."
    )
    seed: Seed = Field(1, description="Of the flow's weights, the order of the pairs and the dropout.")


class TransformRunConfig(CheckedModel):
    """A run that fits a transform on an encoder's vectors, and where the model goes."""

    recipe: str = Field(description="Name of the recipe that the other values come from.")
    preset: Preset = Field("paper", description="`paper`, or `released` for what the published code does.")
    base: str = Field(description="Encoder: a folder, a hub id or a bundled model.")
    output: str = Field(description="Folder for the model.")
    pooling: str | None = Field(
        description="For raw transformers; a finished encoder keeps its own unless another is named."
    )
    data: str = Field(description="File, folder, hub id or catalogue name; sentences or pairs.")
    columns: tuple[str, ...] | None = Field(None, description="One text column, or both of pairs: a,b.")
    data_dir: str | None = Field(None, description="Folder of local data sets; SENTEMB_DATA by default.")
    cache_dir: str | None = Field(None, description="Keep the encoder's vectors in this folder.")
    max_length: int = Field(
        ge=3, description="Tokens of a sentence while fitting; the model keeps its own limit."
    )


class FlowRunConfig(TransformRunConfig, FlowConfig):
    """A run that fits BERT-flow."""

    @property
    def flow(self) -> FlowConfig:
        """The flow's part."""
        values = self.values()
        return FlowConfig(**{name: values[name] for name in FlowConfig.model_fields})


class WhiteningRunConfig(TransformRunConfig):
    """A run that fits BERT-whitening."""

    dimensions: int | None = Field(None, ge=1, description="Keep the first so many; all by default.")
