"""One run on several tasks, from its sets to its published model."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import set_seed

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.losses import ParaphraseContrastLoss
from sentemb.modules import build_encoder
from sentemb.multitask.card import model_card
from sentemb.multitask.checkpoints import (
    Progress,
    best_places,
    copy_model,
    keep_best,
    newest_checkpoint,
    save_checkpoint,
)
from sentemb.multitask.config import MultiTaskConfig
from sentemb.multitask.contrast import Contrast
from sentemb.multitask.evaluation import OVERALL, evaluate_tasks
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.stages import Stage, stages_of
from sentemb.multitask.tasks import TaskSets
from sentemb.multitask.trainer import MultiTaskTrainer, check_finite, learning_rate_at
from sentemb.training.callbacks import InterruptCallback
from sentemb.training.card import write_card
from sentemb.training.checkpoints import checkpoint_name, remove_remains
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Interrupted, Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.random_state import random_state, set_random_state
from sentemb.training.record import describe_environment
from sentemb.training.stopping import StoppingRule

logger = logging.getLogger(__name__)

_LOG_STEPS = 50


class MultiTaskSession:
    """Everything that one run needs, built in the order that makes its weights repeatable.

    Args:
        config: The configuration, with one seed.
        train: Sets to train on.
        dev: Sets to choose the weights by.
        nli: Columns of NLI triples, where contrast is trained on them.
        progress: Where to show progress.

    Raises:
        InputError: Something in the configuration cannot be used.
    """

    def __init__(
        self,
        config: MultiTaskConfig,
        train: TaskSets,
        dev: TaskSets,
        nli: Sequence[Sequence[str]],
        *,
        progress: ConsoleProgress | None = None,
    ) -> None:
        self.config, self.train, self.dev, self.nli, self.progress = config, train, dev, nli, progress
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        set_seed(self.seed)  # the heads draw from the generators
        encoder = build_encoder(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        longest = encoder.max_seq_length
        encoder.max_seq_length = min(config.max_length, longest or config.max_length)
        width = int(encoder.get_embedding_dimension() or 0)
        names = train.sentiment.label_names
        heads = TaskHeads(width, len(names), sharing=config.sharing, dropout=config.head_dropout)
        self.model = MultiTaskModel(encoder, heads, names, shifted=config.similarity_target == "shifted")
        options = check_loss_options(config)
        contrast = Contrast(ParaphraseContrastLoss(encoder, **options))
        self.trainer = MultiTaskTrainer(self.model, contrast, train, config, nli=nli)
        self.stages = stages_of(config, train, nli_rows=len(nli[0]) if nli else 0)
        self.rule = StoppingRule(config.stopping, config.stopping_limit)
        self.at = Progress()
        self.interrupt = InterruptCallback()
        self._logged: dict[str, list[Tensor]] = {}

    def run(self, *, resume: bool) -> Run:
        """Train, or go on training, and publish the model."""
        with self.folder.claimed(self.config, resume=resume):
            remove_remains(self.folder.checkpoints)
            self._restore()
            self._begin_record()
            if self.progress is not None:
                self.progress.begin(sum(self._steps_of(stage) for stage in self.stages), self.at.steps)
            try:
                with self.interrupt:
                    while self.at.stage < len(self.stages):
                        self._run_stage(self.stages[self.at.stage])
            finally:
                if self.progress is not None:
                    self.progress.close()
            return self._publish()

    def _restore(self) -> None:
        found = newest_checkpoint(self.folder.checkpoints)
        if found is None:
            return
        self.at, state = found
        self.trainer.load_state(state["trainer"])
        set_random_state(state["random"])
        logger.info("resuming at step %d", self.at.steps)

    def _run_stage(self, stage: Stage) -> None:
        if self.at.epoch == self.at.step == 0:
            self.trainer.optimizer = self.trainer.fresh_optimizer()
        # Of its own for every epoch, so that an interrupted one is laid out again as it was.
        generator = np.random.default_rng((self.seed, self.at.stage, self.at.epoch))
        steps = stage.layout(generator)
        before, total = self.at.epoch * len(steps), self._steps_of(stage)
        for step in steps[self.at.step : max(0, total - before)]:
            rate = learning_rate_at(self.config, stage.learning_rate, step=before + self.at.step, steps=total)
            began = time.monotonic()
            losses = self.trainer.take(step, learning_rate=rate, number=self.at.steps)
            self.at.seconds += time.monotonic() - began
            self.at.texts += sum(len(part.rows) * len(self.trainer.columns[part.data]) for part in step.parts)
            self.at.step += 1
            self.at.steps += 1
            self._log(stage, losses)
            if self.progress is not None:
                self.progress.advance(self.at.steps)
            if self.interrupt.interrupted:
                self._save(judged=False)
                raise Interrupted(self.folder.path, self.at.steps)
        self._end_epoch(stage, over=before + len(steps) >= total)

    def _steps_of(self, stage: Stage) -> int:
        all_epochs = stage.epochs * len(stage.layout(np.random.default_rng(0)))
        return min(all_epochs, self.config.max_steps or all_epochs)

    def _end_epoch(self, stage: Stage, *, over: bool) -> None:
        self._write_log(stage)
        self.at.epoch, self.at.step = self.at.epoch + 1, 0
        judged = stage is self.stages[-1]
        if judged:
            metrics = evaluate_tasks(self.model, self.dev)
            self.at.judge(metrics)
            self._append(stage, {f"eval_{name}": score for name, score in metrics.items()})
            over = over or self.rule.fires(self.at.scores)
        if over:
            self.at.stage, self.at.epoch = self.at.stage + 1, 0
        self._save(judged=judged)
        if self.interrupt.interrupted:
            raise Interrupted(self.folder.path, self.at.steps)

    def _save(self, *, judged: bool) -> None:
        state = {"trainer": self.trainer.state(), "random": random_state()}
        save_checkpoint(self.folder.checkpoints, self.at, state, self.model if judged else None)

    def _log(self, stage: Stage, losses: dict[str, Tensor]) -> None:
        for name, loss in losses.items():
            self._logged.setdefault(name, []).append(loss)
        if self.at.steps % _LOG_STEPS == 0:
            self._write_log(stage)

    def _write_log(self, stage: Stage) -> None:
        means = {name: torch.stack(values).mean().item() for name, values in self._logged.items()}
        self._logged = {}
        check_finite(means, step=self.at.steps)
        if means:
            self._append(stage, {f"loss_{name}": mean for name, mean in means.items()})

    def _append(self, stage: Stage, values: dict[str, float]) -> None:
        where = {"step": self.at.steps, "time": round(time.time(), 3), "stage": stage.name}
        self.folder.append_metrics(where | values)
        if self.progress is not None:
            self.progress.show(values, self.at.steps)

    def _begin_record(self) -> None:
        self.folder.rewind_metrics(self.at.steps)
        before = self.folder.read_record()
        data = {
            "train": {task: describe_set(one) for task, one in self.train},
            "dev": {task: describe_set(one) for task, one in self.dev},
            "nli": {"rows": len(self.nli[0]), "sha256": checksum(self.nli)} if self.nli else None,
        }
        if "data" in before and before["data"] != data:
            raise InputError("the data has changed since the run began", "begin a new run on it")
        sessions = [*before.get("sessions", []), {"began": _now(), "from_step": self.at.steps}]
        self.folder.update_record(
            status="running",
            recipe=self.config.recipe,
            preset=self.config.preset,
            seed=self.seed,
            precision=self.config.precision,
            max_length=self.model.encoder.max_seq_length,
            stages=[stage.name for stage in self.stages],
            heads=self.model.heads.config(),
            loss={"name": self.config.loss} | self.trainer.contrast.pairs.get_config_dict(),
            sessions=sessions,
            data=data,
            **describe_environment(),
        )

    def _publish(self) -> Run:
        folder, best = self.folder, self.at.best[OVERALL]
        kept = self.at.steps if self.config.use_last else int(best["step"])
        speed = round(self.at.texts / self.at.seconds, 2) if self.at.seconds else 0.0
        score = self.at.scores[-1] if self.config.use_last else best["score"]
        sessions = folder.read_record()["sessions"]
        sessions[-1]["ended"] = _now()
        record = folder.update_record(
            sessions=sessions,
            steps=self.at.steps,
            kept_step=kept,
            seconds=round(self.at.seconds, 2),
            sentences_per_second=speed,
            dev={"score": score, "metric": OVERALL, "evaluations": len(self.at.scores)},
            best=best_places(self.at, published=kept),
        )
        checkpoint = folder.checkpoints / checkpoint_name(kept)
        partial = folder.run / "model.partial"
        copy_model(checkpoint, partial)
        citation = self.trainer.contrast.pairs.citation
        write_card(partial / "README.md", lambda: model_card(self.config, record, citation=citation))
        folder.publish(partial)
        folder.update_record(status="finished")
        keep_best(folder.checkpoints, self.at, published=kept)
        return Run(folder.path, self.seed, score, kept, self.at.steps, speed)


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


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
