"""The trainer of several tasks: a step may combine, project or alternate the losses of several batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformerTrainingArguments
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.multitask.evaluation import METRICS, OVERALL
from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.pcgrad import GradientSurgery
from sentemb.multitask.plan import StepPlan
from sentemb.multitask.schedule import Part, Step
from sentemb.training.checkpoints import checkpoints, keep_weights, remove_folder
from sentemb.training.owned import average
from sentemb.training.trainer import SentembTrainer, decay_groups

LOG_STEPS = 50


class MultiTaskTrainer(SentembTrainer):
    """Takes the steps of a plan, each stage with a fresh optimizer."""

    loss: MultiTaskLoss
    optimizer: torch.optim.Optimizer
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(
        self,
        model: MultiTaskModel,
        arguments: SentenceTransformerTrainingArguments,
        *,
        plan: StepPlan,
        loss: MultiTaskLoss,
        **kwargs: Any,
    ) -> None:
        self.tasks, self.plan = model, plan
        self.weights = loss.trained()
        config = loss.config
        self.surgery = GradientSurgery(
            self.weights.parameters(), reduction=config.surgery_reduction, preset=config.preset
        )
        self._parts: dict[str, list[Tensor]] = {}
        state = random_state()
        super().__init__(model.encoder, arguments, loss=loss, card=False, **kwargs)
        set_random_state(state)  # upstream seeds the generators again
        self.add_callback(_PlanCallback(plan))

    def get_train_dataloader(self) -> DataLoader[Step]:
        """The steps, in order."""
        # Of its own, because a loader draws a number when it starts.
        generator = torch.Generator()
        return DataLoader(self.plan, batch_size=1, collate_fn=_alone, generator=generator)

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Leave the encoder in the loss: gradients are averaged here, not by a wrapper."""
        return loss

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW without decay of vectors; the plan has the learning rate."""
        trained = [parameter for parameter in self.weights.parameters() if parameter.requires_grad]
        config = self.loss.config
        groups = decay_groups(trained, config.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=1.0, betas=config.betas, eps=config.epsilon, fused=True)
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The plan's learning rate; the optimizer's own is 1."""
        if self.lr_scheduler is None:
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.plan.learning_rate)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """The gradients of one step, and the mean or sum of its losses."""
        step: Step = inputs["step"]
        number, config = self.state.global_step, self.loss.config
        if self.plan.begins_stage(number):
            self.optimizer.state.clear()
        self.weights.train()
        with torch.autocast(self.args.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            losses = {_name(part): self.loss(part) for part in step.parts}
        total = torch.stack(list(losses.values()))
        total = total.mean() if step.combine == "mean" else total.sum()
        if config.gradient_surgery and len(losses) > 1:
            generator = random.Random(f"{config.seeds[0]}/{number}")
            self.surgery.backward(list(losses.values()), generator=generator)
        else:
            total.backward()  # type: ignore[no-untyped-call]
            for parameter in self.weights.parameters():
                average(parameter.grad)
        for name, loss in losses.items():
            self._parts.setdefault(name, []).append(loss.detach())
        return total.detach()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate without touching the random state that dropout draws from."""
        state = random_state()
        metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        set_random_state(state)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with the stage and the mean loss of each kind of batch."""
        if "loss" in logs:
            means = {name: torch.stack(losses).mean().item() for name, losses in self._parts.items()}
            self._parts = {}
            logs |= {f"loss_{name}": mean for name, mean in means.items()}
        stage: Any = self.plan.stage_of(max(0, self.state.global_step - 1)).name
        super().log(logs | {"stage": stage}, start_time)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        norm: Tensor = nn.utils.clip_grad_norm_(self.weights.parameters(), self.args.max_grad_norm)
        return norm

    def save_weights(self, folder: Path) -> None:
        """Write the weights of the encoder and of the heads."""
        super().save_weights(folder)
        self.tasks.write_heads(folder)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if not self.args.should_save:
            return
        kept = {int(best["step"]) for best in best_scores(self.state).values()}
        for step, path in checkpoints(Path(self.args.output_dir)):
            if step not in kept | {self.state.global_step}:
                remove_folder(path)
            elif step != self.state.global_step:
                keep_weights(path)


class _PlanCallback(TrainerCallback):
    """Saves after every epoch, and evaluates those of the last stage."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        last = state.global_step - 1
        if self.plan.ends_epoch(last):
            control.should_log = control.should_save = True
            control.should_evaluate = self.plan.stage_of(last) is self.plan.stages[-1]


def best_scores(state: TrainerState) -> dict[str, dict[str, float]]:
    """For each metric the best score, and the step after which it was first reached."""
    best: dict[str, dict[str, float]] = {}
    for entry in state.log_history:
        if f"eval_{OVERALL}" not in entry:
            continue
        for key, score in entry.items():
            name = key.removeprefix("eval_")
            if name in (*METRICS.values(), OVERALL) and (name not in best or score > best[name]["score"]):
                best[name] = {"score": score, "step": entry["step"]}
    return best


def random_state() -> tuple[Any, ...]:
    """Return the state of every global random generator of this process."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda  # noqa: NPY002


def set_random_state(state: tuple[Any, ...]) -> None:
    """Put every global random generator back to a state that `random_state` returned."""
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002 - the global generator
    torch.set_rng_state(state[2])
    if state[3]:
        torch.cuda.set_rng_state_all(state[3])


def _alone(steps: list[Step]) -> dict[str, Step]:
    return {"step": steps[0]}


def _name(part: Part) -> str:
    return part.data if part.objective == "task" else f"contrast_{part.data}"
