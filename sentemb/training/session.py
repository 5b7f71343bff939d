"""One run from its data to its published model, whatever it trains."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._files import share_files, writing
from sentemb.errors import InputError
from sentemb.training.callbacks import InterruptCallback, MetricsCallback, SpeedCallback
from sentemb.training.checkpoints import (
    check_checkpoint,
    checkpoint_name,
    checkpoints,
    remove_folder,
    remove_remains,
)
from sentemb.training.config import RunConfig
from sentemb.training.folder import RunFolder
from sentemb.training.outcome import Interrupted, Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_all, on_main, ranks
from sentemb.training.record import describe_environment
from sentemb.training.stopping import StoppingCallback, StoppingRule, dev_scores

logger = logging.getLogger(__name__)


class Session(ABC):
    """The run folder, record, checkpoints, resumption, interrupts, metrics and progress of one run.

    A subclass reads its data, makes the model, the loss, the evaluator and the trainer of them, and says what
    is special about its record and its model. Building checks everything and writes nothing.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    evaluator: Any = None
    """Chooses the best checkpoint by its `best_metric_key`; None for the last weights."""
    use_last: bool = False
    """Keep the last weights, not those of the best score."""
    remarks: tuple[str, ...] = ()
    """Lines for the user before the run."""
    speed: SpeedCallback
    """Measures the steps."""
    scores: list[float]
    """Dev scores in order, once training is over."""

    def __init__(
        self, config: RunConfig, *, progress: ConsoleProgress | None, rule: StoppingRule | None = None
    ) -> None:
        self.config = config
        self.progress = progress
        self.rule = rule or StoppingRule("none")
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds

    @abstractmethod
    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool, in_memory: bool) -> Any:
        """Make the trainer, a `ResumableTrainer`."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Say for the record what is trained on what; `data` must not change until the run is resumed."""

    @abstractmethod
    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""

    @abstractmethod
    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model with its kept weights, and its card."""

    def prepare(self) -> None:  # noqa: B027 - nothing to do is the rule
        """What a run computes before the first step, with its folder claimed."""

    def finish(self, kept: Run) -> Run:
        """What remains to be computed once the kept weights are loaded."""
        return kept

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Say more for the record, once the weights are chosen."""
        return {}

    def retained(self, trainer: Any, kept: Run) -> set[int]:
        """Steps whose checkpoints stay after the run."""
        return {kept.step}

    def run(self, *, resume: bool) -> Run:
        """Train, or resume training, and publish the model."""
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(self.folder.claimed(self.config, resume=resume)))
            return self._run()

    def run_in_memory(self) -> Run:
        """Train without a record, checkpoints and a saved model: for weights that are used and dropped."""
        trainer = self._trainer(fresh=True, in_memory=True)
        self._train(trainer, None)
        return self.finish(self._keep(trainer))

    def announce(self, text: str) -> None:
        """Say something to the user, once however many processes there are."""
        if not ranks().is_main_process:
            return
        if self.progress is None:
            logger.info(text)
        else:
            self.progress.announce(text)

    def _run(self) -> Run:
        saved = checkpoints(self.folder.checkpoints)
        step, checkpoint = saved[-1] if saved else (-1, None)
        for _, path in saved:  # the best one is read at the end, which may be hours away
            check_checkpoint(path)
        on_main(lambda: self._begin_record(step))
        self.prepare()
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
        # On all: publishing removes checkpoints, which another process may still be reading.
        kept = on_all(lambda: self.finish(self._keep(trainer)))
        on_main(lambda: self._publish(trainer, kept))
        return kept

    def _trainer(self, *, fresh: bool, in_memory: bool = False) -> Any:
        callbacks: list[TrainerCallback] = [self.speed]
        if not in_memory:
            callbacks.append(MetricsCallback(self.folder, speed=self.speed))
        if self.evaluator is not None:
            callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
        if self.progress is not None and ranks().is_main_process:
            self.progress.speed = self.speed
            callbacks.append(self.progress)
        trainer = self.make_trainer(callbacks, fresh=fresh, in_memory=in_memory)
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _train(self, trainer: Any, checkpoint: Path | None) -> None:
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
            raise Interrupted(self.folder.path, trainer.state.global_step, interrupt.number)

    def _scores(self, state: TrainerState) -> list[float]:
        return [] if self.evaluator is None else dev_scores(state.log_history, self.evaluator.best_metric_key)

    def _is_over(self, checkpoint: Path) -> bool:
        """Whether the run died between its last step and its published model."""
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        return state.global_step >= state.max_steps or self.rule.fires(self._scores(state))

    def _begin_record(self, step: int) -> None:
        folder, config = self.folder, self.config
        remove_remains(folder.checkpoints)
        folder.rewind_metrics(step)
        described = self.describe()
        before = folder.read_record()
        if "data" in before and _content(before["data"]) != _content(described["data"]):
            raise InputError(
                f"{described['data']['source']} has changed since the run started (recorded "
                f"in {folder.record})",
                "restore the data, or start a new run with another --output",
            )
        sessions = [*before.get("sessions", []), {"began": _now(), "from_step": max(step, 0)}]
        folder.update_record(
            status="running",
            recipe=config.recipe,
            preset=config.preset,
            seed=self.seed,
            processes=ranks().num_processes,
            sessions=sessions,
            inputs=folder.inputs(config),
            **described,
            **describe_environment(),
        )

    def _keep(self, trainer: Any) -> Run:
        """Choose the weights that the paper's protocol keeps, and load them."""
        state = trainer.state
        scores = self.scores = self._scores(state)
        step, score = state.global_step, scores[-1] if scores else None
        if scores and not self.use_last and state.best_global_step is not None:
            step, score = state.best_global_step, state.best_metric
            trainer.restore(self.folder.checkpoints / checkpoint_name(step))
        speed = round(self.speed.sentences_per_second, 2)
        return Run(self.folder.path, self.seed, score, step, state.global_step, speed)

    def _publish(self, trainer: Any, kept: Run) -> None:
        folder, scores = self.folder, self.scores
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
            **self.summarise(trainer, kept),
        )
        partial = folder.run / "model.partial"
        remove_folder(partial)
        with writing(partial):
            self.write_model(partial, record)
        share_files(partial)
        folder.publish(partial)
        folder.update_record(status="finished")
        # Upstream makes this folder for evaluators that write files; ours does not.
        remove_folder(folder.checkpoints / "eval")
        retained = self.retained(trainer, kept)
        for step, path in checkpoints(folder.checkpoints):
            if step not in retained:
                remove_folder(path)


def _content(described: Any) -> Any:
    """Return what data are, without where they lie: paths depend on the working folder, checksums do not."""
    if isinstance(described, list):
        return [_content(part) for part in described]
    if not isinstance(described, dict):
        return described
    streamed = described.get("files") == []  # without a checksum, known by its address alone
    places = {"path"} if streamed else {"path", "source"}
    return {name: _content(part) for name, part in described.items() if name not in places}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
