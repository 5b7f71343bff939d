"""Optimizer steps on several tasks.

A loop of its own: transformers' trainer has one loss and one optimizer step for a batch, while here a step
may combine three tasks, project their gradients, or alternate between two objectives on the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.multitask.config import MultiTaskConfig
from sentemb.multitask.contrast import Contrast, embed
from sentemb.multitask.evaluation import columns_of
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.objectives import task_loss
from sentemb.multitask.pcgrad import GradientSurgery
from sentemb.multitask.schedule import ContrastSet, Part, Rows, Step
from sentemb.multitask.tasks import Task, TaskSets


class MultiTaskTrainer:
    """Takes the steps that a stage lays out.

    Args:
        model: The model to train.
        contrast: The contrastive losses on its encoder.
        sets: The training sets.
        config: The configuration, with one seed.
        nli: Columns of NLI triples, where contrast is trained on them.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        contrast: Contrast,
        sets: TaskSets,
        config: MultiTaskConfig,
        *,
        nli: Sequence[Sequence[str]] = (),
    ) -> None:
        self.model, self.contrast, self.sets, self.config = model, contrast, sets, config
        self.columns: dict[ContrastSet, Sequence[Sequence[str]]] = {
            task: columns_of(data) for task, data in sets
        }
        self.columns["nli"] = nli
        self.weights = nn.ModuleDict({"encoder": model.encoder, "heads": model.heads})
        if contrast.pairs.head is not None:
            self.weights["contrast"] = contrast.pairs.head
        self.surgery = GradientSurgery(
            self.weights.parameters(), reduction=config.surgery_reduction, preset=config.preset
        )
        self.optimizer = self.fresh_optimizer()

    def fresh_optimizer(self) -> torch.optim.AdamW:
        """Make an optimizer without a history."""
        trained = [parameter for parameter in self.weights.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": self.config.weight_decay},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, betas=self.config.betas, eps=self.config.epsilon, fused=True)

    def take(self, step: Step, *, learning_rate: float, number: int) -> dict[str, Tensor]:
        """Take one optimizer step."""
        self.weights.train()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(
            self.model.encoder.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"
        ):
            losses = {_name(part): self.loss(part) for part in step.parts}
        if self.config.gradient_surgery and len(losses) > 1:
            self.surgery.backward(
                list(losses.values()), generator=random.Random(f"{self.config.seeds[0]}/{number}")
            )
        else:
            total = torch.stack(list(losses.values()))
            (total.mean() if step.combine == "mean" else total.sum()).backward()  # type: ignore[no-untyped-call]
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.weights.parameters(), self.config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        return {name: loss.detach() for name, loss in losses.items()}

    def loss(self, part: Part) -> Tensor:
        """Loss of a batch."""
        columns = [[column[row] for row in part.rows] for column in self.columns[part.data]]
        if part.objective == "contrast":
            labelled = part.data == "paraphrase" and self.config.contrast_supervised
            labels = self._labels("paraphrase", part.rows) if labelled else None
            contrast: Tensor = self.contrast(columns, labels)
            return contrast
        task = cast(Task, part.data)  # triples have no task
        vectors = embed(self.model.encoder, [text for column in columns for text in column])
        predicted = self.model.heads(task, *vectors.chunk(len(columns)))
        return task_loss(
            task,
            predicted,
            self._labels(task, part.rows),
            similarity_target=self.config.similarity_target,
            nominal_rows=self.config.batch_size if self.config.preset == "released" else None,
        )

    def state(self) -> dict[str, Any]:
        """Weights and optimizer, for a checkpoint."""
        return {"weights": dict(self.weights.state_dict()), "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Put back what `state` took."""
        self.weights.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _labels(self, task: Task, rows: Rows) -> Tensor:
        return torch.from_numpy(self.sets[task].labels[rows]).to(self.model.encoder.device)


def learning_rate_at(config: MultiTaskConfig, peak: float, *, step: int, steps: int) -> float:
    """The learning rate of a step: a linear rise over the warm-up, then constant or linear to 0."""
    warm = round(config.warmup * steps)
    if step < warm:
        return peak * step / warm
    return peak * (steps - step) / max(1, steps - warm) if config.schedule == "linear" else peak


def check_finite(losses: dict[str, float], *, step: int) -> None:
    """Stop a run whose loss is not finite."""
    for name, value in losses.items():
        if not abs(value) < float("inf"):
            raise InputError(
                f"the loss of {name} is not finite at step {step}",
                "lower the learning rate or raise the temperature",
            )


def _name(part: Part) -> str:
    return part.data if part.objective == "task" else f"contrast_{part.data}"
