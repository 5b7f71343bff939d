"""The configuration of a training on several tasks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sentemb.errors import InputError
from sentemb.training.config.base import CheckedModel, EncoderConfig, RunConfig

LOSS = "ParaphraseContrastLoss"
Task = Literal["sentiment", "paraphrase", "similarity"]
Sharing = Literal["none", "separate", "first-layer", "full"]
"""What the heads of paraphrase and similarity have in common; `none` has no layers for them at all."""
TaskSchedule = Literal["average", "batch-round-robin", "epoch-round-robin"]
"""How an epoch mixes the tasks: every step on the mean of the tasks' losses, steps of the tasks in turn, or
one whole set after the other."""
Resampling = Literal["uniform", "stratified"]
"""How a set is brought down to the size of the smallest, again for every epoch."""
Fusion = Literal["alternating", "summed"]
"""Two optimizer steps on each batch, first the task then contrast, or one step on the sum of the losses."""
Reduction = Literal["mean", "sum"]
SimilarityTarget = Literal["fraction", "scaled", "shifted"]
"""How cosine and score are compared: cos with y / 5, 5 cos with y, or 5 (cos + 1) / 2 with y."""
ContrastSource = Literal["given", "quora", "nli"]
"""The three sets of the tasks, the paraphrase set alone, or NLI triples."""


def _loss(name: str) -> str:
    if name != LOSS:
        raise InputError(
            f"multi-task training does not support the loss {name}",
            f"use {LOSS}, the only loss for multi-task training",
        )
    return name


class MultiTaskConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything but the data that decides the weights of a model of several tasks, and where they go.

    A run is made of stages with an optimizer each: contrast on each of `contrast_data` and the tasks, in the
    order that `contrast` says; a stage starts from the last weights of the one before. Every epoch of the
    last stage is evaluated on the dev sets, also by the stopping rule. `epochs` and `learning_rate` are those
    of the tasks; `max_steps` and `warmup` count within each stage.

    `loss` is `ParaphraseContrastLoss`, the contrast of labelled pairs, whose head and temperature the other
    kinds of contrast share. Under `preset="released"` gradient surgery is that of the released code, and the
    loss of sentiment is divided by the batch size also in a smaller last batch, as in the starter code.

    Example:
        >>> resolve("table2-given", overrides={"output": "mine"}).batch_size
        16
    """

    loss: Annotated[str, AfterValidator(_loss)] = Field(LOSS, description="Contrastive loss.")
    tasks: tuple[Task, ...] = Field(("sentiment", "paraphrase", "similarity"), description="Tasks to train.")
    sharing: Sharing = Field("first-layer", description="Layers that the task heads share; see `TaskHeads`.")
    head_dropout: float = Field(0.3, ge=0, le=0.99, description="Dropout probability in the task heads.")
    task_schedule: TaskSchedule = Field("average", description="How an epoch combines the tasks.")
    resampling: Resampling = Field(
        "uniform", description="How each set is downsampled to the size of the smallest set."
    )
    gradient_surgery: bool = Field(
        False,
        description="Use gradient surgery (PCGrad) between the tasks instead of averaging their losses.",
    )
    surgery_reduction: Reduction = Field("mean", description="How the projected gradients are combined.")
    similarity_target: SimilarityTarget = Field(
        "fraction", description="How the cosine similarity and the gold score are compared."
    )
    contrast: Literal["none", "before", "after", "fused"] = Field(
        "before",
        description="When the contrastive stage runs: before or after the tasks, or `fused` with one task. "
        "Fused: each batch of the task is trained on the task and then on the contrastive loss; the "
        "other sets follow on the contrastive loss alone.",
    )
    contrast_data: tuple[ContrastSource, ...] = Field(
        ("given",), description="Data of the contrastive stages, one stage each."
    )
    contrast_supervised: bool = Field(
        True,
        description="Use the labels of the paraphrase set. Otherwise its texts become dropout views like "
        "those of the other two sets, and the sentiment set comes first.",
    )
    contrast_epochs: int = Field(5, ge=1, description="Contrastive epochs on the tasks' own sets.")
    nli_epochs: int = Field(3, ge=1, description="Contrastive epochs on NLI triples.")
    contrast_learning_rate: float = Field(
        2e-5,
        ge=0,
        description="Learning rate of contrastive stages. A fused stage uses the learning rate of the tasks.",
    )
    paraphrase_share: float = Field(
        1.0, ge=0, le=1, description="Fraction of the paraphrase set sampled in each contrastive epoch."
    )
    fusion: Fusion = Field(
        "alternating",
        description="Whether a fused batch takes two optimizer steps (`alternating`) or one step on the sum "
        "of the losses (`summed`).",
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        for name, least in (("tasks", 1), ("contrast_data", 0 if self.contrast == "none" else 1)):
            chosen = getattr(self, name)
            if len(chosen) < least or len(set(chosen)) != len(chosen):
                raise InputError(
                    f"{name} is {', '.join(chosen) or 'empty'}",
                    "list each value once, and at least one value",
                )
        if self.gradient_surgery and (self.task_schedule != "average" or len(self.tasks) < 2):
            raise InputError(
                "gradient_surgery needs two or more tasks in one step",
                "set task_schedule=average and list two or more tasks",
            )
        if self.contrast == "fused" and (len(self.tasks) != 1 or self.contrast_data != ("given",)):
            raise InputError(
                "contrast=fused needs exactly one task and contrast_data=given",
                "for example, set tasks=sentiment and contrast_data=given",
            )
        return self
