"""One run on several tasks, from its sets to its published model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import TrainerCallback

from sentemb._compat import BaseEvaluator
from sentemb.losses import ParaphraseContrastLoss
from sentemb.multitask.evaluation import OVERALL, evaluate_tasks
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.plan import StepPlan
from sentemb.multitask.stages import stages_of
from sentemb.multitask.tasks import TaskSets
from sentemb.multitask.trainer import LOG_STEPS, MultiTaskTrainer, best_scores
from sentemb.training.card import multitask_card, write_card
from sentemb.training.checkpoints import checkpoint_name
from sentemb.training.config import MultiTaskConfig
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.session import Session


class TaskEvaluator(BaseEvaluator):
    """Scores the model that is being trained on the dev sets."""

    primary_metric = OVERALL
    best_metric_key = f"eval_{OVERALL}"

    def __init__(self, model: MultiTaskModel, dev: TaskSets) -> None:
        super().__init__()
        self.model, self.dev = model, dev

    def __call__(self, model: SentenceTransformer, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        return evaluate_tasks(self.model, self.dev)


class MultiTaskSession(Session):
    """A run that trains one encoder and the heads of several tasks."""

    config: MultiTaskConfig

    def __init__(
        self,
        config: MultiTaskConfig,
        train: TaskSets,
        dev: TaskSets,
        nli: Sequence[Sequence[str]],
        *,
        progress: ConsoleProgress | None = None,
    ) -> None:
        self.train, self.dev, self.nli = train, dev, nli
        super().__init__(config, progress=progress)
        encoder = self.model
        encoder.max_seq_length = self.max_length
        width = int(encoder.get_embedding_dimension() or 0)
        names = train.sentiment.label_names
        heads = TaskHeads(width, len(names), sharing=config.sharing, dropout=config.head_dropout)
        self.tasks = MultiTaskModel(encoder, heads, names, shifted=config.similarity_target == "shifted")
        pairs = ParaphraseContrastLoss(encoder, **check_loss_options(config, cacheable=False))
        self.loss = MultiTaskLoss(self.tasks, pairs, train, config, nli=nli)
        self.plan = StepPlan(stages_of(config, train, nli_rows=len(nli[0]) if nli else 0), config)
        self.evaluator = TaskEvaluator(self.tasks, dev)

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        data = {
            "source": "the data",
            "train": {task: one.describe() for task, one in self.train},
            "dev": {task: one.describe() for task, one in self.dev},
            "nli": {"rows": len(self.nli[0]), "sha256": checksum(self.nli)} if self.nli else None,
        }
        stages = [stage.name for stage in self.plan.stages]
        return {"data": data, "stages": stages, "heads": self.tasks.heads.config(), **super().describe()}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        return {"metric": OVERALL}

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model and its card."""
        self.tasks.save(folder)
        write_card(folder / "README.md", lambda: multitask_card(self.config, record, loss=self.loss))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer of the plan."""
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self.folder.checkpoints),
            per_device_train_batch_size=1,
            num_train_epochs=1,
            max_grad_norm=self.config.clip,
            use_cpu=not torch.accelerator.is_available(),
            metric_for_best_model=self.evaluator.best_metric_key,
            greater_is_better=True,
            save_strategy="steps",
            save_steps=len(self.plan),
            logging_steps=LOG_STEPS,
            seed=self.seed,
            report_to="none",
            disable_tqdm=True,
        )
        return MultiTaskTrainer(
            self.tasks,
            arguments,
            plan=self.plan,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
        )

    def retained(self, trainer: Any, kept: Run) -> set[int]:
        """The best by every metric, of which ensembles are made."""
        return {int(best["step"]) for best in best_scores(trainer.state).values()} - {kept.step}

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Say where the best model by each metric lies."""
        best = best_scores(trainer.state)
        return {"best": _places(best, published=kept.step), "seconds": round(self.speed.seconds, 2)}


def checksum(content: Any) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def _places(best: dict[str, dict[str, float]], *, published: int) -> dict[str, dict[str, Any]]:
    """Where the best model by each metric lies once a run is finished."""
    places = {}
    for metric, one in best.items():
        step = int(one["step"])
        path = "." if step == published else f"run/checkpoints/{checkpoint_name(step)}"
        places[metric] = {"score": one["score"], "step": step, "path": path}
    return places
