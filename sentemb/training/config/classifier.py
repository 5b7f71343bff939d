"""The configuration of a classifier's training."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sentemb.errors import InputError
from sentemb.training.config.base import CheckedModel, EncoderConfig, Options

Metric = Literal["accuracy", "macro_f1", "f1", "matthews"]
"""Chooses the best checkpoint; `f1` is that of the second of two classes."""
HeadKind = Literal["linear", "label", "label-fusion", "leam", "lsan"]
"""A key of `sentemb.modules.heads.HEADS`."""


class ProbeOptions(CheckedModel):
    """How SupCL-Seq's second stage trains a linear head on the frozen encoder, as its notebooks do."""

    learning_rate: float = Field(1e-3, ge=0, description="Peak learning rate of AdamW.")
    weight_decay: float = Field(0.01, ge=0, description="Decoupled decay of all weights but biases.")
    warmup_steps: int = Field(
        50,
        ge=0,
        description="Steps over which the learning rate rises, but at most a tenth of all; it then falls "
        "linearly to 0.",
    )
    epochs: int = Field(5, ge=1, description="How often the head is evaluated; 3 to 5 in the notebooks.")
    min_steps: int = Field(
        390,
        ge=0,
        description="An epoch is several passes where the set is too small for so many steps in all. 390 is "
        "what five epochs of RTE take, the smallest set on which the paper gains; 0 as in the notebooks.",
    )
    batch_size: int = Field(32, ge=1, description="Vectors per step; the paper does not say.")
    clip: float = Field(1.0, ge=0, description="Largest gradient norm, the library's default.")
    encoder_dropout: bool = Field(
        False,
        description="Leave the frozen encoder's dropout on, as the released code does, and encode again for "
        "every pass.",
    )

    def passes(self, rows: int) -> int:
        """Passes over the vectors in an epoch, one or more."""
        return max(1, -(-self.min_steps // (self.epochs * self.steps(rows))))

    def steps(self, rows: int) -> int:
        """Optimizer steps of a pass."""
        return -(-rows // self.batch_size)


def _free_options(options: Options) -> Options:
    if taken := {"kind", "width", "classes"} & options.keys():
        raise InputError(f"head_options name {min(taken)}", "encoder and data decide it")
    return options


class ClassifierConfig(EncoderConfig):
    """Everything but the data that decides the weights of a classifier, and where they go.

    A loss that takes a head trains it together with the encoder. Any other loss trains the encoder alone, and
    a linear head is then fitted on the frozen encoder: the second stage of SupCL-Seq.

    Example:
        >>> resolve("ce", overrides={"base": "bert-mini", "output": "mine"}).batch_size
        32
    """

    head: HeadKind = Field("linear", description="Kind of the head.")
    head_options: Annotated[Options, AfterValidator(_free_options)] = Field(
        {}, description="Arguments of the head beside its width and classes."
    )
    probe_options: Options = Field({}, description="Second stage, see `ProbeOptions`.")
    self_supervised: bool = Field(
        False,
        description="Hide the labels from the loss, for which each text and its views are then a class of "
        "their own; only the second stage sees them.",
    )
    metric: Metric = Field("accuracy", description="Metric of the validation set that chooses the weights.")
    eval_steps: int | None = Field(
        None,
        ge=1,
        description="Optimizer steps between evaluations; once per epoch by default.",
    )

    @property
    def probe(self) -> ProbeOptions:
        """The options of the second stage, checked."""
        return ProbeOptions(**self.probe_options)  # type: ignore[arg-type]

    @model_validator(mode="after")
    def _check_probe(self) -> Self:
        try:
            _ = self.probe
        except InputError as error:
            message = error.message.replace("unknown setting", "unknown option of the second stage")
            where = "" if "unknown" in message else "probe_options."
            raise InputError(where + message, error.hint) from None
        return self
