"""One run from its data to its published model."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._files import share_files
from sentemb.data.columns import LABEL
from sentemb.errors import InputError
from sentemb.modules import build_encoder
from sentemb.training.arguments import training_arguments
from sentemb.training.callbacks import InterruptCallback, MetricsCallback, SpeedCallback
from sentemb.training.checkpoints import checkpoint_name, checkpoints, remove_folder, remove_remains
from sentemb.training.config import EncoderConfig
from sentemb.training.folder import RunFolder
from sentemb.training.outcome import Interrupted, Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_main, ranks
from sentemb.training.record import describe_environment
from sentemb.training.run_trainers import MemoryTrainer, RunTrainer
from sentemb.training.stopping import StoppingCallback, StoppingRule, dev_scores
from sentemb.training.trainer import SentembTrainer

logger = logging.getLogger(__name__)


class Session(ABC):
    """Everything that one run needs, built in the order that makes its weights repeatable.

    A subclass reads its data, makes the loss and the evaluator, and says what is special about its record and
    its model; the run itself, its folder, checkpoints and resumption are the same for all. Building checks
    everything and writes nothing.

    Args:
        config: The configuration, with one seed.
        rows: Training rows.
        progress: Where to show progress.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    eval_steps: int
    """Optimizer steps between two evaluations, and between two checkpoints."""
    eval_on_start: ClassVar[bool]
    """Whether the untrained state is evaluated, and is the first candidate for the kept weights."""
    evaluator: Any
    """Chooses the best checkpoint by its `best_metric_key`; None for the last weights."""
    loss: Any
    """Trains the model."""
    remarks: tuple[str, ...] = ()
    """Lines for the user before the run."""

    def __init__(self, config: EncoderConfig, *, rows: Dataset, progress: ConsoleProgress | None) -> None:
        self.config = config
        self.rows = rows
        self.progress = progress
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        # New layers of the model and the head of the loss draw from the generators.
        set_seed(self.seed)
        self.model = build_encoder(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        self.max_length = self._fitting_length()
        self.rows_per_step = config.batch_size * ranks().num_processes
        texts = sum(name != LABEL for name in rows.column_names)
        self.speed = SpeedCallback(self.rows_per_step * texts)
        self.rule = StoppingRule(config.stopping, config.stopping_limit)
        _warn_of_slow_precision(config)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""

    @abstractmethod
    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""

    @abstractmethod
    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model with its kept weights, and its card."""

    def finish(self, kept: Run) -> Run:
        """What remains to be computed once the kept weights are loaded."""
        return kept

    def run(self, *, resume: bool) -> Run:
        """Train, or go on training, and publish the model."""
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(self.folder.claimed(self.config, resume=resume)))
            return self._run()

    def run_in_memory(self) -> Run:
        """Train without a record, checkpoints and a saved model: for weights that are used and dropped."""
        trainer = self._trainer(fresh=True, kind=MemoryTrainer)
        self._train(trainer, None)
        return self.finish(self._keep(trainer))

    def _run(self) -> Run:
        saved = checkpoints(self.folder.checkpoints)
        step, checkpoint = saved[-1] if saved else (-1, None)
        on_main(lambda: self._begin_record(step))
        trainer = self._trainer(fresh=checkpoint is None)
        for remark in self.remarks:
            self.announce(remark)
        if checkpoint is not None:
            self.announce(f"resuming at step {step}")
        if checkpoint is not None and self._is_over(checkpoint):
            trainer.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
            trainer.restore(checkpoint)
        else:
            self._train(trainer, checkpoint)
        kept = self.finish(self._keep(trainer))
        on_main(lambda: self._publish(trainer, kept))
        return kept

    def _train(self, trainer: SentembTrainer, checkpoint: Path | None) -> None:
        interrupt = InterruptCallback()
        trainer.add_callback(interrupt)
        try:
            with interrupt:
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        finally:
            if self.progress is not None:
                self.progress.close()
        # Also after the last step, whose checkpoint resumption publishes: whatever would follow, a further
        # run among it, is not wanted.
        if interrupt.interrupted:
            raise Interrupted(self.folder.path, trainer.state.global_step)

    def _trainer(self, *, fresh: bool, kind: type[SentembTrainer] = RunTrainer) -> SentembTrainer:
        callbacks: list[Any] = [self.speed]
        if kind is RunTrainer:
            callbacks.append(MetricsCallback(self.folder, speed=self.speed))
        if self.evaluator is not None:
            callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
        if self.progress is not None and ranks().is_main_process:
            self.progress.speed = self.speed
            callbacks.append(self.progress)
        trainer = kind(
            self.model,
            training_arguments(
                self.config,
                self.folder.checkpoints,
                eval_steps=self.eval_steps,
                metric=None if self.evaluator is None else self.evaluator.best_metric_key,
                eval_on_start=fresh and self.eval_on_start,
            ),
            train_dataset=self.rows,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.data_collator.max_length = self.max_length
        return trainer

    def _fitting_length(self) -> int:
        longest = self.model.max_seq_length
        if longest is not None and self.config.max_length > longest:
            logger.warning(
                "max_length %d is more than the model takes; using %d", self.config.max_length, longest
            )
            return int(longest)
        return self.config.max_length

    def _is_over(self, checkpoint: Path) -> bool:
        """Whether the run died between its last step and its published model."""
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step >= state.max_steps:
            return True
        return self.evaluator is not None and self.rule.fires(
            dev_scores(state.log_history, self.evaluator.best_metric_key)
        )

    def _begin_record(self, step: int) -> None:
        folder, config = self.folder, self.config
        remove_remains(folder.checkpoints)
        folder.rewind_metrics(step)
        described = self.describe()
        before = folder.read_record()
        if "data" in before and before["data"] != described["data"]:
            raise InputError(
                f"{described['data']['source']} has changed since the run began", "begin a new run on it"
            )
        sessions = [*before.get("sessions", []), {"began": _now(), "from_step": max(step, 0)}]
        folder.update_record(
            status="running",
            recipe=config.recipe,
            preset=config.preset,
            seed=self.seed,
            precision=config.precision,
            max_length=self.max_length,
            processes=ranks().num_processes,
            loss={"name": config.loss} | _plain(self.loss),
            sessions=sessions,
            **described,
            **describe_environment(),
        )

    def _keep(self, trainer: SentembTrainer) -> Run:
        """Choose the weights that the paper's protocol keeps, and load them."""
        state = trainer.state
        step, score = state.global_step, None
        if self.evaluator is not None:
            scores = dev_scores(state.log_history, self.evaluator.best_metric_key)
            score = scores[-1] if scores else None
            if not self.config.use_last and state.best_global_step is not None:
                step, score = state.best_global_step, state.best_metric
                trainer.restore(self.folder.checkpoints / checkpoint_name(step))
                if step == 0:
                    logger.warning(
                        "no evaluation beat the base model: the kept weights are the untrained ones"
                    )
        speed = round(self.speed.sentences_per_second, 2)
        return Run(self.folder.path, self.seed, score, step, state.global_step, speed)

    def _publish(self, trainer: SentembTrainer, kept: Run) -> None:
        folder = self.folder
        scores: list[float] = []
        if self.evaluator is not None:
            scores = dev_scores(trainer.state.log_history, self.evaluator.best_metric_key)
        sessions = folder.read_record()["sessions"]
        sessions[-1] |= {"ended": _now(), "train_seconds": round(self.speed.seconds, 3)}
        record = folder.update_record(
            sessions=sessions,
            steps=kept.steps,
            kept_step=kept.step,
            sentences_per_second=kept.sentences_per_second,
            dev={
                "score": kept.dev_score,
                "evaluations": len(scores),
                "drops": StoppingRule("drops").count(scores),
                **self.describe_score(kept, scores),
            },
        )
        partial = folder.run / "model.partial"
        remove_folder(partial)
        self.write_model(partial, record)
        share_files(partial)
        folder.publish(partial)
        folder.update_record(status="finished")
        # Upstream makes this folder for evaluators that write files; ours does not.
        remove_folder(folder.checkpoints / "eval")
        for step, path in checkpoints(folder.checkpoints):
            if step not in self.retained(trainer, kept):
                remove_folder(path)

    def retained(self, trainer: SentembTrainer, kept: Run) -> set[int]:
        """Steps whose checkpoints stay after the run."""
        return {kept.step}

    def announce(self, text: str) -> None:
        """Say something to the user, once however many processes there are."""
        if not ranks().is_main_process:
            return
        if self.progress is None:
            logger.info(text)
        else:
            self.progress.announce(text)


def _warn_of_slow_precision(config: EncoderConfig) -> None:
    slow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    if config.precision == "bfloat16" and slow and not torch.accelerator.is_available():
        logger.warning("this CPU has no bfloat16 instructions: training in float32 is several times faster")


def _plain(loss: Any) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in loss.get_config_dict().items()
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
