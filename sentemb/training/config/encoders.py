"""The configurations of what trains an encoder by a loss: on text, on pairs, and with a classifier's head."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sentemb.errors import InputError
from sentemb.training.config.base import CheckedModel, EncoderConfig, Options, RunConfig

Metric = Literal["accuracy", "macro_f1", "f1", "matthews"]
"""Chooses the best checkpoint; `f1` is that of the second of two classes."""
HeadKind = Literal["linear", "label", "label-fusion", "leam", "lsan"]
"""A key of `sentemb.modules.heads.HEADS`."""


class TrainConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything that decides the weights of an encoder trained on text, and where they go.

    Example:
        >>> resolve("simcse", overrides={"data": "sentences.txt", "output": "mine"}).max_length
        32
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*RunConfig.free_to_change, "data")

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


class PairsConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything that decides the weights of an encoder trained on pairs, and where they go.

    Example:
        >>> config = resolve("pairs", overrides={"data": "pairs.jsonl", "base": "bert-mini", "output": "m"})
        >>> config.held_out
        0.15
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*RunConfig.free_to_change, "data")

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


class ProbeOptions(CheckedModel):
    """Options of SupCL-Seq's second stage: a linear head on the frozen encoder, as in its notebooks."""

    learning_rate: float = Field(1e-3, ge=0, description="Peak learning rate of AdamW.")
    weight_decay: float = Field(
        0.01, ge=0, description="Decoupled weight decay, applied to all weights except biases."
    )
    warmup_steps: int = Field(
        50,
        ge=0,
        description="Number of warmup steps, at most a tenth of all steps. The learning rate then decays "
        "linearly to 0.",
    )
    epochs: int = Field(
        5,
        ge=1,
        description="Number of epochs. The head is evaluated after each one. The notebooks use 3 to 5.",
    )
    min_steps: int = Field(
        390,
        ge=0,
        description="Minimum number of steps in total. A small set is repeated within an epoch until it is "
        "reached. 390 is the number of steps in five epochs of RTE, the smallest set on which the "
        "paper improves. The notebooks use 0.",
    )
    batch_size: int = Field(32, ge=1, description="Vectors per step. The paper does not state it.")
    clip: float = Field(1.0, ge=0, description="Maximum gradient norm. The default is the library's.")
    encoder_dropout: bool = Field(
        False,
        description="Keep the dropout of the frozen encoder active, as in the released code, and encode the "
        "texts again for each pass.",
    )

    def passes(self, rows: int) -> int:
        """Passes over the vectors in an epoch, one or more."""
        return max(1, -(-self.min_steps // (self.epochs * self.steps(rows))))

    def steps(self, rows: int) -> int:
        """Optimizer steps of a pass."""
        return -(-rows // self.batch_size)


def _free_options(options: Options) -> Options:
    if taken := {"kind", "width", "classes"} & options.keys():
        raise InputError(
            f"head_options cannot set {min(taken)}", "remove it: the encoder and the data determine it"
        )
    return options


class ClassifierConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything but the data that decides the weights of a classifier, and where they go.

    A loss that takes a head trains it together with the encoder. Any other loss trains the encoder alone, and
    a linear head is then fitted on the frozen encoder: the second stage of SupCL-Seq.

    Example:
        >>> resolve("ce", overrides={"base": "bert-mini", "output": "mine"}).batch_size
        32
    """

    head: HeadKind = Field("linear", description="Classification head.")
    head_options: Annotated[Options, AfterValidator(_free_options)] = Field(
        {}, description="Arguments of the head, except its width and classes."
    )
    probe_options: Options = Field({}, description="Options of the second stage; see `ProbeOptions`.")
    self_supervised: bool = Field(
        False,
        description="Hide the labels from the loss, so that each text and its views form a class of their "
        "own. Only the second stage uses the labels.",
    )
    metric: Metric = Field("accuracy", description="Validation metric that selects the weights.")
    eval_steps: int | None = Field(
        None,
        ge=1,
        description="Optimizer steps between evaluations. Once per epoch by default.",
    )

    @property
    def probe(self) -> ProbeOptions:
        """The options of the second stage, checked."""
        return ProbeOptions(**self.probe_options)

    @model_validator(mode="after")
    def _check_probe(self) -> Self:
        try:
            _ = self.probe
        except InputError as error:
            message = error.message.replace("unknown setting", "unknown option of the second stage")
            where = "" if "unknown" in message else "probe_options."
            raise InputError(where + message, error.hint) from None
        return self
