"""The configuration of a training on several tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentemb.errors import InputError
from sentemb.multitask.heads import Sharing
from sentemb.multitask.objectives import SimilarityTarget
from sentemb.multitask.pcgrad import Reduction
from sentemb.multitask.schedule import Fusion, Resampling, TaskSchedule
from sentemb.multitask.tasks import TASKS, Task
from sentemb.training.config import RunConfig, require

LOSS = "ParaphraseContrastLoss"
ContrastSource = Literal["given", "quora", "nli"]
"""The three sets of the tasks, the paraphrase set alone, or NLI triples."""


@dataclass(frozen=True, kw_only=True)
class MultiTaskConfig(RunConfig):
    """Everything but the data that decides the weights of a model of several tasks, and where they go.

    A run is made of stages with an optimizer each: contrast on each of `contrast_data` and the tasks, in the
    order that `contrast` says; a stage goes on from the last weights of the one before. Every epoch of the
    last stage is judged on the dev sets, also by the stopping rule. `epochs` and `learning_rate` are those of
    the tasks; `max_steps` and `warmup` count within each stage.

    `loss` is `ParaphraseContrastLoss`, the contrast of labelled pairs, whose head and temperature the other
    kinds of contrast share. Under `preset="released"` gradient surgery is that of the released code, and the
    loss of sentiment is divided by the batch size also in a smaller last batch, as in the starter code.

    Args:
        tasks: The tasks to train.
        sharing: What the heads share, see `TaskHeads`.
        head_dropout: Dropout probability in the heads.
        task_schedule: How an epoch mixes the tasks, see `TaskSchedule`.
        resampling: How sets are brought down to one size, see `Resampling`.
        gradient_surgery: Remove conflicts between the tasks' gradients instead of averaging the losses.
        surgery_reduction: `mean` or `sum` of the projected gradients.
        similarity_target: How cosine and score are compared, see `SimilarityTarget`.
        contrast: `none`, `before` or `after` the tasks, or `fused` with one task: each of its batches is
            trained on the task and then on contrast, and the other sets follow on contrast alone.
        contrast_data: What contrast is trained on, one stage each.
        contrast_supervised: Use the labels of the paraphrase set; otherwise its texts are dropout views like
            those of the other two sets, and the sentiment set comes first.
        contrast_epochs: Epochs on the tasks' sets.
        nli_epochs: Epochs on NLI triples.
        contrast_learning_rate: Learning rate of contrastive stages; a fused stage has that of the tasks.
        paraphrase_share: Share of the paraphrase set that an epoch of contrast draws anew.
        fusion: Whether a fused batch takes two optimizer steps or one on the sum, see `Fusion`.

    Raises:
        InputError: A value has the wrong type or lies outside its range, or two do not go together.
    """

    tasks: tuple[Task, ...] = TASKS
    sharing: Sharing = "first-layer"
    head_dropout: float = 0.3
    task_schedule: TaskSchedule = "average"
    resampling: Resampling = "uniform"
    gradient_surgery: bool = False
    surgery_reduction: Reduction = "mean"
    similarity_target: SimilarityTarget = "fraction"
    contrast: Literal["none", "before", "after", "fused"] = "before"
    contrast_data: tuple[ContrastSource, ...] = ("given",)
    contrast_supervised: bool = True
    contrast_epochs: int = 5
    nli_epochs: int = 3
    contrast_learning_rate: float = 2e-5
    paraphrase_share: float = 1.0
    fusion: Fusion = "alternating"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("contrast_epochs", "nli_epochs"):
            require(name, getattr(self, name), at_least=1)
        require("contrast_learning_rate", self.contrast_learning_rate, at_least=0)
        require("head_dropout", self.head_dropout, at_least=0, at_most=0.99)
        require("paraphrase_share", self.paraphrase_share, at_least=0, at_most=1)
        if self.loss != LOSS:
            raise InputError(f"loss is {self.loss}", f"contrast on several tasks takes {LOSS}")
        for name, least in (("tasks", 1), ("contrast_data", 0 if self.contrast == "none" else 1)):
            chosen = getattr(self, name)
            if len(chosen) < least or len(set(chosen)) != len(chosen):
                raise InputError(f"{name} is {', '.join(chosen) or 'empty'}", "name each once, one at least")
        if self.gradient_surgery and (self.task_schedule != "average" or len(self.tasks) < 2):
            raise InputError(
                "gradient_surgery is for two or more tasks in one step", "take task_schedule=average"
            )
        if self.contrast == "fused" and (len(self.tasks) != 1 or self.contrast_data != ("given",)):
            raise InputError(
                "contrast=fused trains one task on each batch, and the given sets",
                "set tasks=sentiment and contrast_data=given",
            )

    __hash__ = RunConfig.__hash__
