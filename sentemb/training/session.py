"""One run from its data to its published model, whatever it trains."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._files import share_files, writing
from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import Role, TextEncoder, Vectors, normalised
from sentemb.encoding.sentence import prompt_of
from sentemb.errors import InputError
from sentemb.training.callbacks import (
    InterruptCallback,
    MetricsCallback,
    SpeedCallback,
    StoppingCallback,
    StoppingRule,
    dev_scores,
)
from sentemb.training.card import encoder_card, write_card
from sentemb.training.checkpoints import (
    check_checkpoint,
    checkpoint_name,
    checkpoints,
    keep_weights,
    remove_folder,
    remove_remains,
)
from sentemb.training.config import EncoderConfig
from sentemb.training.encoders import (
    fitting_length,
    load_trainable,
    routes_of,
    training_arguments,
    truncation_notice,
)
from sentemb.training.folder import RunFolder, describe_environment
from sentemb.training.objective import describe_loss
from sentemb.training.outcome import Interrupted, Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_all, on_main, process_state
from sentemb.training.trainer import SentembTrainer

logger = logging.getLogger(__name__)


class Session(ABC):
    """The run folder, record, checkpoints, resumption, interrupts, metrics and progress of one run.

    A subclass reads its data, and makes the loss and the evaluator of an encoder's run after this, which has
    loaded the model of an `EncoderConfig`. Its hooks say what is special about its record and its model.
    Building checks everything and writes nothing.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    model: Any
    loss: Any
    evaluator: Any = None  # chooses the best checkpoint by its `best_metric_key`; None for the last weights
    eval_on_start: ClassVar[bool] = False  # whether the untrained state is a candidate for the kept weights
    eval_steps: int  # optimizer steps between two evaluations, and between two checkpoints
    uses_prompts: ClassVar[bool] = True  # whether the model is judged with its prompts, and so trained
    is_resumable: bool = True  # whether checkpoints have the optimizer's state
    use_last: bool = False  # keep the last weights, not those of the best score
    remarks: tuple[str, ...] = ()  # lines for the user before the run
    scores: list[float]  # dev scores in order, once training is over

    def __init__(self, config: Any, *, progress: ConsoleProgress | None, rows: Dataset | None = None) -> None:
        self.config = config
        self.progress = progress
        self.rows = rows
        self.rule = StoppingRule("none")
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        self.speed = SpeedCallback(config.batch_size * self.text_columns)
        if isinstance(config, EncoderConfig):
            self.rule = StoppingRule(config.stopping, config.stopping_limit)
            self.use_last = config.use_last
            # New layers of the model and the head of the loss draw from the generators.
            set_seed(self.seed)
            self.model = load_trainable(config)
            self.max_length = fitting_length(config, self.model)

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model with its kept weights, and its card."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        card = partial(encoder_card, self.config, self.model, record, loss=self.loss)
        write_card(folder / "README.md", card)

    @abstractmethod
    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""

    def describe(self) -> dict[str, Any]:
        """Return for the record what is trained on what; `data` must not change until the run is resumed."""
        loss = describe_loss(self.config.loss, self.loss)
        before = self.folder.read_record().get("loss", loss)
        if before.get("sha256") != loss.get("sha256"):
            raise InputError(
                f"the loss {self.config.loss} has changed since the run started (recorded in "
                f"{self.folder.record})",
                "restore the file, or start a new run with another --output",
            )
        return {"precision": self.config.precision, "max_length": self.max_length, "loss": loss}

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search; None if they are neither query nor document."""
        return None

    def prepare(self) -> None:  # noqa: B027 - nothing to do is the rule
        """Compute what a run needs before the first step, with its folder claimed."""

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer of rows and loss, whose checkpoints `save_checkpoint` writes."""
        columns = self._columns
        prompts = dict.fromkeys(columns, "")
        if self.uses_prompts:
            prompts = {name: prompt_of(self.model, self.role_of(name)) or "" for name in columns}
        trainer = SentembTrainer(
            self.model,
            training_arguments(
                self.config,
                self.folder.checkpoints,
                eval_steps=self.eval_steps,
                metric=None if self.evaluator is None else self.evaluator.best_metric_key,
                eval_on_start=fresh and self.eval_on_start,
                prompts={name: prompt for name, prompt in prompts.items() if prompt},
                routes=routes_of(self.config.base, self.model, columns, self.role_of),
            ),
            train_dataset=self.rows,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
            rows_of_step=self.config.batch_size,
            card=False,
        )
        trainer.args.save_only_model = not self.is_resumable
        trainer.data_collator.max_length = self.max_length
        notice = truncation_notice(self.config, self.model, self.rows, prompts, self.max_length)
        if fresh and notice:
            self.announce(notice)
        return trainer

    def finish(self, kept: Run) -> Run:
        """Compute what remains once the kept weights are loaded."""
        return kept

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return more for the record, once the weights are chosen."""
        return {}

    def retained(self, trainer: Any, kept: Run) -> set[int]:
        """Return the steps whose checkpoints stay after the run."""
        return {kept.step}

    @property
    def text_columns(self) -> int:
        """Number of texts in a training row."""
        return len(self._columns) or 1

    @property
    def kept_vectors(self) -> Path:
        """Folder of the teacher's vectors; it stays until the run ends, so that a resumed run can use it."""
        return self.folder.run / "teacher"

    def announce(self, text: str) -> None:
        """Report a message to the user, once for all processes."""
        if process_state().is_main_process:
            tell = logger.info if self.progress is None else self.progress.announce
            tell(text)

    def encode_by_teacher(self, teacher: TextEncoder, texts: Sequence[str], *, name: str) -> Vectors:
        """Return the unit vectors of texts from a teacher."""
        self.announce(f"encoding {len(texts):,} texts with the teacher {name}")
        return normalised(teacher.encode(texts, progress=self.progress is not None))

    @property
    def _columns(self) -> list[str]:
        """The names of the text columns."""
        return [] if self.rows is None else [name for name in self.rows.column_names if name != LABEL]

    def run(self, *, resume: bool) -> Run:
        """Train, or resume training, and publish the model."""
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(self.folder.claimed(self.config, resume=resume)))
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

    def _trainer(self, *, fresh: bool) -> Any:
        callbacks: list[TrainerCallback] = [self.speed, MetricsCallback(self.folder, speed=self.speed)]
        if self.evaluator is not None:
            callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
        if self.progress is not None and process_state().is_main_process:
            self.progress.speed = self.speed
            callbacks.append(self.progress)
        trainer = self.make_trainer(callbacks, fresh=fresh)
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
        # Also after the last step, since the user does not want what would follow, such as another run. A
        # resumed run publishes the last checkpoint.
        if interrupt.interrupted:
            raise Interrupted(self.folder.path, trainer.state.global_step, interrupt.number)

    def _scores(self, state: TrainerState) -> list[float]:
        return [] if self.evaluator is None else dev_scores(state.log_history, self.evaluator.best_metric_key)

    def _is_over(self, checkpoint: Path) -> bool:
        """Return True if the run was killed after its last step but before it published its model."""
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
        folder.update_record(
            status="running",
            recipe=config.recipe,
            preset=config.preset,
            seed=self.seed,
            processes=process_state().num_processes,
            sessions=[*before.get("sessions", []), {"began": _now(), "from_step": max(step, 0)}],
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
            if step in retained:
                keep_weights(path)  # a finished run contains no pickle
            else:
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
