"""The configurations of what is fitted on the vectors of a frozen encoder: BERT-flow and whitening."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from sentemb.training.config.base import CheckedModel, Preset, Seed

OptimizerKind = Literal["adamw", "bert-adam"]
"""`bert-adam` is BERT's own: Adam without bias correction, with decoupled weight decay."""


class _FlowFields(BaseModel):
    levels: int = Field(3, ge=1, description="Levels (l3).")
    steps: int = Field(3, ge=1, description="Flow steps per level (d3).")
    width: int = Field(32, ge=1, description="Width of the hidden layers in the couplings (w32).")
    coupling: Literal["additive", "affine"] = Field(
        "additive",
        description="Coupling layer: `additive` as in the released configuration, or `affine`, an option of "
        "its code.",
    )
    permutation: Literal["reverse", "learned"] = Field(
        "reverse",
        description="Permutation of dimensions: `reverse` as in the released configuration, or `learned` as "
        "in Glow.",
    )
    # The first sentences of a batch initialise the flow, which takes two.
    batch_size: int = Field(32, ge=2, description="Sentence pairs per step.")
    epochs: int = Field(1, ge=1, description="Number of passes over the pairs.")
    learning_rate: float = Field(1e-3, gt=0, description="Constant.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay, applied to every weight of the flow.")
    clip: float = Field(1.0, gt=0, description="Maximum global gradient norm.")
    optimizer: OptimizerKind = Field(
        "adamw",
        description="Optimizer: AdamW with bias correction, or `bert-adam`, the Adam of the released code.",
    )
    encoder_dropout: bool = Field(
        False, description="Encode the training sentences with dropout, a side effect of the released code."
    )
    seed: Seed = Field(
        1, description="Random seed for the weights of the flow, the order of the pairs and dropout."
    )


class FlowConfig(CheckedModel, _FlowFields):
    """The flow's shape and its training; defaults are the released configuration `l3_d3_w32`.

    Example:
        >>> FlowConfig(epochs=2).levels
        3
    """


class _RunFields(BaseModel):
    recipe: str = Field(description="Name of the recipe that sets the defaults.")
    preset: Preset = Field(
        "paper",
        description="`paper` for the values of the paper, `released` for those of the published code.",
    )
    base: str = Field(description="Encoder: a folder, a hub id or a bundled model.")
    output: str = Field(description="Output folder of the model.")
    pooling: str | None = Field(
        description="Pooling of token vectors. The recipe's pooling applies to a pretrained base, that is, a "
        "transformer without sentence-level training. A finished sentence encoder keeps its own "
        "pooling unless you set this."
    )
    data: str = Field(description="Sentences or sentence pairs: a file, folder, hub id or catalogue name.")
    columns: tuple[str, ...] | None = Field(
        None, description="One text column, or both columns of pairs: a,b."
    )
    data_dir: str | None = Field(None, description="Folder of local data sets. SENTEMB_DATA by default.")
    cache_dir: str | None = Field(None, description="Folder that caches the encoder's vectors.")
    max_length: int = Field(
        ge=3,
        description="Maximum length of a sentence in tokens while fitting. The model keeps its own limit.",
    )


class FlowRunConfig(CheckedModel, _RunFields, _FlowFields):
    """A run that fits BERT-flow."""

    @property
    def flow(self) -> FlowConfig:
        """The flow's part."""
        return FlowConfig(**{name: getattr(self, name) for name in FlowConfig.model_fields})


class WhiteningRunConfig(CheckedModel, _RunFields):
    """A run that fits BERT-whitening."""

    dimensions: int | None = Field(
        None, ge=1, description="Number of leading dimensions to keep. All by default."
    )
