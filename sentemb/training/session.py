"""One run from its data to its published model."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._files import share_files
from sentemb.data import describe_source
from sentemb.errors import InputError
from sentemb.losses import ViewCache
from sentemb.modules import build_encoder
from sentemb.training.arguments import training_arguments
from sentemb.training.callbacks import InterruptCallback, MetricsCallback, SpeedCallback
from sentemb.training.card import write_card
from sentemb.training.checkpoints import checkpoint_name, checkpoints, remove_folder, remove_remains
from sentemb.training.config import TrainConfig
from sentemb.training.folder import RunFolder
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_main, ranks
from sentemb.training.record import describe_environment
from sentemb.training.rows import dev_evaluator, load_rows
from sentemb.training.stopping import StoppingCallback, StoppingRule, dev_scores
from sentemb.training.trainer import SentembTrainer

logger = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; its folder holds a checkpoint to resume from.

    Args:
        folder: The run's folder.
        step: The step of the checkpoint.
    """

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(f"stopped at step {step}; the same command with --resume goes on from there")
        self.folder = folder
        self.step = step


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        output: The folder; it loads as a `SentenceTransformer`.
        seed: Its seed.
        dev_score: Dev score of the kept weights, as a fraction; `None` without a dev set.
        step: Step of the kept weights.
        steps: Steps trained in all.
        sentences_per_second: Speed of the steps; 0 where none was left to train.
    """

    output: Path
    seed: int
    dev_score: float | None
    step: int
    steps: int
    sentences_per_second: float


class Session:
    """Everything that one run needs, built in the order that makes its weights repeatable.

    Building reads and checks data, dev set, base model and loss, and writes nothing.

    Args:
        config: The configuration, with one seed.
        progress: Where to show progress.
        view_cache: Cache of frozen views to share between runs.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    def __init__(
        self, config: TrainConfig, *, progress: ConsoleProgress | None, view_cache: ViewCache | None
    ) -> None:
        self.config = config
        self.progress = progress
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        self.rows = load_rows(config)
        self.evaluator = dev_evaluator(config)
        # New layers of the model and the head of the loss draw from the generators.
        set_seed(self.seed)
        self.model = build_encoder(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        self.max_length = self._fitting_length()
        rows_per_step = config.batch_size * ranks().num_processes
        whole_pass = config.max_steps is None or config.max_steps * rows_per_step >= len(self.rows)
        self.loss = build_loss(config, self.model, view_cache=view_cache, whole_pass=whole_pass)
        self.negatives = negatives_per_anchor(
            self.loss, batch_size=config.batch_size, columns=len(self.rows.column_names)
        )
        _warn_of_slow_precision(config)
        self.rule = StoppingRule(config.stopping, config.stopping_limit)
        self.speed = SpeedCallback(rows_per_step * len(self.rows.column_names))

    def run(self, *, resume: bool) -> Run:
        """Train, or go on training, and publish the model.

        Args:
            resume: Whether an interrupted run may go on.

        Returns:
            The finished run.

        Raises:
            InputError: The folder is not this run's, or its data has changed.
            Interrupted: The user stopped the run.
        """
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(self.folder.claimed(self.config, resume=resume)))
            return self._run()

    def _run(self) -> Run:
        saved = checkpoints(self.folder.checkpoints)
        step, checkpoint = saved[-1] if saved else (-1, None)
        on_main(lambda: self._begin_record(step))
        trainer = self._trainer(fresh=checkpoint is None)
        self._announce(f"negatives per anchor: {self.negatives}")
        if checkpoint is not None:
            self._announce(f"resuming at step {step}")
        if checkpoint is not None and self._is_over(checkpoint):
            trainer.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
            trainer.restore(checkpoint)
        else:
            self._train(trainer, checkpoint)
        kept = self._keep(trainer)
        on_main(lambda: self._publish(trainer, kept))
        return kept

    def _train(self, trainer: SentembTrainer, checkpoint: Path | None) -> None:
        if getattr(self.loss, "view_cache", None) is not None:
            self._announce("computing the views of the frozen encoder before the first step")
        interrupt = InterruptCallback()
        trainer.add_callback(interrupt)
        try:
            with interrupt:
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        finally:
            if self.progress is not None:
                self.progress.close()
        if interrupt.interrupted and trainer.state.global_step < trainer.state.max_steps:
            raise Interrupted(self.folder.path, trainer.state.global_step)

    def _trainer(self, *, fresh: bool) -> SentembTrainer:
        callbacks: list[Any] = [self.speed, MetricsCallback(self.folder, speed=self.speed)]
        if self.evaluator is not None:
            callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
        if self.progress is not None and ranks().is_main_process:
            self.progress.speed = self.speed
            callbacks.append(self.progress)
        trainer = _RunTrainer(
            self.model,
            training_arguments(
                self.config,
                self.folder.checkpoints,
                metric=None if self.evaluator is None else self.evaluator.best_metric_key,
                fresh=fresh,
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
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(self.rows))
        before = folder.read_record()
        if "data" in before and before["data"] != data:
            raise InputError(f"{config.data} has changed since the run began", "begin a new run on it")
        sessions = [*before.get("sessions", []), {"began": _now(), "from_step": max(step, 0)}]
        folder.update_record(
            status="running",
            recipe=config.recipe,
            preset=config.preset,
            seed=self.seed,
            precision=config.precision,
            max_length=self.max_length,
            negatives_per_anchor=self.negatives,
            processes=ranks().num_processes,
            data=data,
            loss={"name": config.loss} | _plain(self.loss),
            sessions=sessions,
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
                "set": self.config.dev,
                "metric": "Spearman of cosines, protocol all",
                "score": kept.dev_score,
                "initial": scores[0] if scores else None,
                "evaluations": len(scores),
                "drops": StoppingRule("drops").count(scores),
            },
        )
        partial = folder.run / "model.partial"
        remove_folder(partial)
        self.model.save_pretrained(str(partial), create_model_card=False)
        write_card(partial / "README.md", self.config, record, citation=str(self.loss.citation))
        share_files(partial)
        folder.publish(partial)
        folder.update_record(status="finished")
        # Upstream makes this folder for evaluators that write files; ours does not.
        remove_folder(folder.checkpoints / "eval")
        for step, path in checkpoints(folder.checkpoints):
            if step != kept.step:
                remove_folder(path)

    def _announce(self, text: str) -> None:
        if not ranks().is_main_process:
            return
        if self.progress is None:
            logger.info(text)
        else:
            self.progress.announce(text)


class _RunTrainer(SentembTrainer):
    """Leaves upstream's model card out: the run writes one of its own."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add nothing.

        Args:
            default_args_dict: Not used.
        """


def _warn_of_slow_precision(config: TrainConfig) -> None:
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
