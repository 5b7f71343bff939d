"""The trainers of a run: one with a folder, one that leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sentemb.training.length_bucketing import LengthBucketedEncoder
from sentemb.training.rows import DevEvaluator
from sentemb.training.trainer import SentembTrainer


class RunTrainer(SentembTrainer):
    """Leaves upstream's model card out, as the run writes its own; keeps evaluations in checkpoints."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add nothing."""

    rows: int | None = None
    """Rows of a batch of all ranks together, where that is not a multiple of the ranks."""

    @property
    def rows_of_step(self) -> int:
        """Rows of a batch of all ranks together."""
        return super().rows_of_step if self.rows is None else self.rows

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Put upstream's wrapper of the model into the loss, unless the loss runs the model in parts."""
        if isinstance(getattr(loss, "model", None), LengthBucketedEncoder):
            return loss
        changed: nn.Module = super().override_model_in_loss(loss, model)
        return changed

    def save_weights(self, folder: Path) -> None:
        """Write the weights, and what the dev set's evaluator found."""
        super().save_weights(folder)
        if isinstance(self.evaluator, DevEvaluator):
            self.evaluator.save(folder, best=self.state.best_global_step, last=self.state.global_step)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if isinstance(self.evaluator, DevEvaluator):
            self.evaluator.load(Path(resume_from_checkpoint))


class MemoryTrainer(RunTrainer):
    """Keeps the weights of the best evaluation in memory in place of checkpoints."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # the upstream signature, unchanged
        super().__init__(*args, **kwargs)
        self._best: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        if self.state.best_global_step == self.state.global_step:
            self._best = _copied(self.model.state_dict()), _copied(self.owned.state())

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of the best evaluation."""
        if self._best is not None:
            model, owned = self._best
            self.model.load_state_dict(model)
            self.owned.load(owned)


def _copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights.items()}
