"""The trainer of several tasks: a step may combine, project or alternate the losses of several batches."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainingArguments
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.model import METRICS, OVERALL
from sentemb.multitask.pcgrad import GradientSurgery
from sentemb.multitask.plan import Step, StepPlan
from sentemb.training.checkpoints import checkpoints, keep_weights, remove_folder
from sentemb.training.owned import average
from sentemb.training.trainer import SentembTrainer, decay_groups


class MultiTaskTrainer(SentembTrainer):
    """Takes the steps of a plan, each stage with a fresh optimizer."""

    loss: MultiTaskLoss

    def __init__(
        self,
        arguments: SentenceTransformerTrainingArguments,
        *,
        plan: StepPlan,
        loss: MultiTaskLoss,
        **kwargs: Any,
    ) -> None:
        config = loss.config
        self.plan, self._parts = plan, defaultdict[str, list[Tensor]](list)
        weights = [parameter for parameter in loss.parameters() if parameter.requires_grad]
        self.surgery = GradientSurgery(weights, reduction=config.surgery_reduction, preset=config.preset)
        groups = decay_groups(weights, config.weight_decay)
        # The plan has the learning rate.
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=config.betas, eps=config.epsilon, fused=True)
        optimizers = optimizer, LambdaLR(optimizer, plan.learning_rate)
        with torch.random.fork_rng():  # upstream seeds the generator again
            super().__init__(loss.encoder, arguments, loss=loss, optimizers=optimizers, card=False, **kwargs)
        self.add_callback(_PlanCallback(plan))

    def get_train_dataloader(self) -> DataLoader[Step]:
        """Return the steps, in order."""
        # A generator of its own, because a loader draws a number when it starts.
        return DataLoader(self.plan, batch_size=1, collate_fn=_step, generator=torch.Generator())

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Leave the encoder in the loss: gradients are averaged here, not by a wrapper."""
        return loss

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Compute the gradients of one step, and return the mean or sum of its losses."""
        number, config = self.state.global_step, self.loss.config
        if self.plan.locate(number)[1] == 0:
            self.optimizer.state.clear()
        self.loss.train()
        with torch.autocast(self.args.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            losses = {part.name: self.loss(part) for part in inputs["step"]}
        total = torch.stack(list(losses.values()))
        total = total.sum() if config.contrast == "fused" else total.mean()
        if config.gradient_surgery and len(losses) > 1:
            generator = random.Random(f"{config.seeds[0]}/{number}")
            self.surgery.backward(list(losses.values()), generator=generator)
        else:
            total.backward()  # type: ignore[no-untyped-call]
            for parameter in self.loss.parameters():
                average(parameter.grad)
        for name, loss in losses.items():
            self._parts[name].append(loss.detach())
        return total.detach()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate without touching the random state that dropout draws from."""
        with torch.random.fork_rng():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with the stage and the mean loss of each kind of batch."""
        if "loss" in logs:
            logs |= {f"loss_{name}": torch.stack(one).mean().item() for name, one in self._parts.items()}
            self._parts.clear()
        stage: Any = self.plan.stages[self.plan.locate(max(0, self.state.global_step - 1))[0]]
        super().log(logs | {"stage": stage}, start_time)

    def save_weights(self, folder: Path) -> None:
        """Write the weights, and the heads as a model has them."""
        super().save_weights(folder)
        self.loss.tasks.write_heads(folder)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        norm: Tensor = nn.utils.clip_grad_norm_(self.loss.parameters(), self.args.max_grad_norm)
        return norm

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if not self.args.should_save:
            return
        best = {int(one["step"]) for one in best_scores(self.state).values()}
        for step, path in checkpoints(Path(self.args.output_dir)):
            if step not in best | {self.state.global_step}:
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
            control.should_evaluate = self.plan.locate(last)[0] == len(self.plan.stages) - 1


def best_scores(state: TrainerState) -> dict[str, dict[str, float]]:
    """Return for each metric the best score, and the step after which it was first reached."""
    best: dict[str, dict[str, float]] = {}
    for entry in state.log_history:
        for name in (*METRICS.values(), OVERALL):
            score = entry.get(f"eval_{name}")
            if score is not None and (name not in best or score > best[name]["score"]):
                best[name] = {"score": score, "step": entry["step"]}
    return best


def _step(steps: list[Step]) -> dict[str, Step]:
    return {"step": steps[0]}
