"""One run on several tasks, from its sets to its published model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback, set_seed

from sentemb._compat import BaseEvaluator
from sentemb.data.labelled import LabelledTexts
from sentemb.losses import ParaphraseContrastLoss
from sentemb.modules import build_encoder
from sentemb.multitask.card import model_card
from sentemb.multitask.config import MultiTaskConfig
from sentemb.multitask.evaluation import OVERALL, evaluate_tasks
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.plan import StepPlan
from sentemb.multitask.stages import stages_of
from sentemb.multitask.tasks import TaskSets
from sentemb.multitask.trainer import LOG_STEPS, MultiTaskTrainer, best_scores, keep_model
from sentemb.training.callbacks import MetricsCallback, SpeedCallback
from sentemb.training.card import write_card
from sentemb.training.checkpoints import checkpoint_name, checkpoints
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.session import Session
from sentemb.training.stopping import StoppingCallback, StoppingRule


class TaskEvaluator(BaseEvaluator):
    """Scores the model that is being trained on the dev sets.

    Args:
        model: The model.
        dev: The dev sets.
    """

    primary_metric = OVERALL
    best_metric_key = f"eval_{OVERALL}"

    def __init__(self, model: MultiTaskModel, dev: TaskSets) -> None:
        super().__init__()
        self.model, self.dev = model, dev

    def __call__(self, model: SentenceTransformer, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        return evaluate_tasks(self.model, self.dev)


class MultiTaskSession(Session):
    """A run that trains one encoder and the heads of several tasks.

    Args:
        config: The configuration, with one seed.
        train: Sets to train on.
        dev: Sets to choose the weights by.
        nli: Columns of NLI triples, where contrast is trained on them.
        progress: Where to show progress.

    Raises:
        InputError: Something in the configuration cannot be used.
    """

    config: MultiTaskConfig
    eval_on_start: ClassVar[bool] = False  # untrained heads are no candidate

    def __init__(
        self,
        config: MultiTaskConfig,
        train: TaskSets,
        dev: TaskSets,
        nli: Sequence[Sequence[str]],
        *,
        progress: ConsoleProgress | None = None,
    ) -> None:
        self.config, self.progress = config, progress
        self.train, self.dev, self.nli = train, dev, nli
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        set_seed(self.seed)  # the heads draw from the generators
        encoder = build_encoder(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        self.max_length = min(config.max_length, encoder.max_seq_length or config.max_length)
        encoder.max_seq_length = self.max_length
        self.model = encoder
        width = int(encoder.get_embedding_dimension() or 0)
        names = train.sentiment.label_names
        heads = TaskHeads(width, len(names), sharing=config.sharing, dropout=config.head_dropout)
        self.tasks = MultiTaskModel(encoder, heads, names, shifted=config.similarity_target == "shifted")
        pairs = ParaphraseContrastLoss(encoder, **check_loss_options(config))
        self.loss = MultiTaskLoss(self.tasks, pairs, train, config, nli=nli)
        self.plan = StepPlan(stages_of(config, train, nli_rows=len(nli[0]) if nli else 0), config)
        self.speed = SpeedCallback(config.batch_size)
        self.rule = StoppingRule(config.stopping, config.stopping_limit)
        self.evaluator = TaskEvaluator(self.tasks, dev)

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        data = {
            "source": "the data",
            "train": {task: describe_set(one) for task, one in self.train},
            "dev": {task: describe_set(one) for task, one in self.dev},
            "nli": {"rows": len(self.nli[0]), "sha256": checksum(self.nli)} if self.nli else None,
        }
        stages = [stage.name for stage in self.plan.stages]
        return {"data": data, "stages": stages, "heads": self.tasks.heads.config()}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        return {"metric": OVERALL}

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model and its card."""
        self.tasks.save(folder)
        citation = self.loss.citation
        write_card(folder / "README.md", lambda: model_card(self.config, record, citation=citation))

    def _trainer(self, *, fresh: bool, kind: Any = None) -> MultiTaskTrainer:
        callbacks: list[Any] = [self.speed, MetricsCallback(self.folder, speed=self.speed)]
        callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
        if self.progress is not None:
            self.progress.speed = self.speed
            callbacks.append(self.progress)
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
        trainer = MultiTaskTrainer(
            self.tasks,
            arguments,
            plan=self.plan,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    def retained(self, trainer: Any, kept: Run) -> set[int]:
        """The best by every metric, of which ensembles are made."""
        return {int(best["step"]) for best in best_scores(trainer.state).values()} - {kept.step}

    def _publish(self, trainer: Any, kept: Run) -> None:
        best = best_scores(trainer.state)
        seconds = round(self.speed.seconds, 2)
        self.folder.update_record(best=_places(best, published=kept.step), seconds=seconds)
        super()._publish(trainer, kept)
        for _, path in checkpoints(self.folder.checkpoints):
            keep_model(path)


def describe_set(data: LabelledTexts) -> dict[str, Any]:
    """What a run's record says of a set."""
    content = [data.texts, data.pairs, data.labels.tolist()]
    return {
        "set": data.name,
        "split": data.split,
        "source": data.source,
        "rows": len(data),
        "classes": data.class_counts,
        "sha256": checksum(content),
    }


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
