"""One run from its data to its published model, whatever it trains."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from tokenizers import Tokenizer
from transformers import PrinterCallback, TrainerCallback, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._compat import Router
from sentemb._files import share_files, writing
from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import Role, TextEncoder, Vectors, normalised
from sentemb.encoding.sentence import prompt_of
from sentemb.encoding.tokens import Tokens
from sentemb.encoding.view import with_truncation_as_module
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.loading import longest_input, shortest_input
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
from sentemb.training.folder import RunFolder, describe_environment
from sentemb.training.objective import describe_loss
from sentemb.training.outcome import Interrupted, Run
from sentemb.training.progress import (
    ConsoleProgress,
    InterruptCallback,
    MetricsCallback,
    StoppingCallback,
    StoppingRule,
    dev_scores,
    without_upstream_bars,
)
from sentemb.training.ranks import on_all, on_main, process_state
from sentemb.training.recipes import RECIPES
from sentemb.training.trainer import SentembTrainer

logger = logging.getLogger(__name__)

_LOGS_PER_EVALUATION = 5
_KEPT_CHECKPOINTS = 2
_ROWS_MEASURED = 5000
"""Rows of which it is counted how many texts are truncated; tokenizing these takes a second."""


class Session(ABC):
    """The run folder, record, checkpoints, resumption, interrupts, metrics and progress of one run.

    A subclass reads its data, and makes the loss and the evaluator of an encoder's run after this, which has
    loaded the model of an `EncoderConfig`. Building checks everything and writes nothing.
    """

    model: Any
    loss: Any
    evaluator: Any = None  # chooses the best checkpoint by its `best_metric_key`; None for the last weights
    eval_on_start: ClassVar[bool] = False  # whether the untrained state is a candidate for the kept weights
    eval_steps: int  # optimizer steps between two evaluations, and between two checkpoints
    is_resumable: bool = True  # whether checkpoints have the optimizer's state
    uses_prompts: ClassVar[bool] = True  # whether the model is judged with its prompts, and so trained
    use_last: bool = False  # keep the last weights, not those of the best score
    keep_checkpoints: bool = False  # keep the weights of all evaluations
    remarks: tuple[str, ...] = ()  # lines for the user before the run
    scores: list[float]  # dev scores in order, once training is over

    def __init__(self, config: Any, *, progress: ConsoleProgress | None, rows: Dataset | None = None) -> None:
        self.config = config
        self.progress = progress
        self.rows = rows
        self.rule = StoppingRule("none")
        self.folder = RunFolder(Path(config.output))
        (self.seed,) = config.seeds
        self.speed = MetricsCallback(self.folder, config.batch_size * self.text_columns)
        if isinstance(config, EncoderConfig):
            self.rule = StoppingRule(config.stopping, config.stopping_limit)
            self.use_last = config.use_last
            # New layers of the model and the head of the loss draw from the generators.
            set_seed(self.seed)
            self.model = _load_trainable(config)
            self.max_length = _fitting_length(config, self.model)

    # Hooks

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
        config, columns = self.config, self._columns
        metric = None if self.evaluator is None else self.evaluator.best_metric_key
        prompts = dict.fromkeys(columns, "")
        if self.uses_prompts:
            prompts = {name: prompt_of(self.model, self.role_of(name)) or "" for name in columns}
        warm = "constant_with_warmup" if config.warmup else "constant"
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self.folder.checkpoints),
            per_device_train_batch_size=-(-config.batch_size // process_state().num_processes),
            num_train_epochs=config.epochs,
            max_steps=config.max_steps or -1,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            adam_beta1=config.betas[0],
            adam_beta2=config.betas[1],
            adam_epsilon=config.epsilon,
            # One kernel for all weights: on a small encoder the projection head is most of a step.
            optim="adamw_torch_fused",
            lr_scheduler_type="linear" if config.schedule == "linear" else warm,
            warmup_steps=config.warmup,
            max_grad_norm=config.clip,
            bf16=config.precision == "bfloat16",
            use_cpu=not torch.accelerator.is_available(),
            eval_strategy="no" if metric is None else "steps",
            eval_steps=self.eval_steps,
            eval_on_start=metric is not None and fresh and self.eval_on_start,
            metric_for_best_model=metric,
            greater_is_better=True,
            save_strategy="steps",
            save_steps=self.eval_steps,
            save_only_model=not self.is_resumable,
            # With a limit of 1 upstream removes the newest checkpoint when an interrupted run ends.
            save_total_limit=None if self.keep_checkpoints else _KEPT_CHECKPOINTS,
            logging_steps=max(1, self.eval_steps // _LOGS_PER_EVALUATION),
            seed=self.seed,
            dataloader_pin_memory=torch.cuda.is_available(),
            report_to="none",
            disable_tqdm=True,
            prompts={name: prompt for name, prompt in prompts.items() if prompt},
            router_mapping=self._routes(),
            # With several processes, upstream warns that it drops the last batch, unless this is set.
            dataloader_drop_last=True,
        )
        arguments.dataloader_drop_last = False
        trainer = SentembTrainer(
            self.model,
            arguments,
            train_dataset=self.rows,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
            rows_of_step=config.batch_size,
            card=False,
        )
        trainer.data_collator.max_length = self.max_length
        if fresh:
            self._announce_truncation(prompts)
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

    def write_model(self, folder: Path) -> None:
        """Write the model with its kept weights."""
        self.model.save_pretrained(str(folder), create_model_card=False)

    def card(self, record: dict[str, Any]) -> str:
        """Return the text of the model's card."""
        return encoder_card(self.config, self.model, record, loss=self.loss)

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

    # The run

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
            callbacks: list[TrainerCallback] = [self.speed]
            if self.evaluator is not None:
                callbacks.append(StoppingCallback(self.evaluator.best_metric_key, rule=self.rule))
            if self.progress is not None and process_state().is_main_process:
                self.progress.speed = self.speed
                callbacks.append(self.progress)
            trainer = self.make_trainer(callbacks, fresh=checkpoint is None)
            trainer.remove_callback(PrinterCallback)
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
            self.write_model(partial)
            write_card(partial / "README.md", lambda: self.card(record))
        share_files(partial)
        folder.publish(partial)
        folder.update_record(status="finished")
        # Upstream makes this folder for evaluators that write files; ours does not.
        remove_folder(folder.checkpoints / "eval")
        retained = self.retained(trainer, kept)
        for step, path in checkpoints(folder.checkpoints):
            if self.keep_checkpoints or step in retained:
                keep_weights(path)  # a finished run contains no pickle
            else:
                remove_folder(path)

    @property
    def _columns(self) -> list[str]:
        """The names of the text columns."""
        return [] if self.rows is None else [name for name in self.rows.column_names if name != LABEL]

    def _routes(self) -> dict[str, str]:
        """Return the route of each text column through the model's Router, if it has one."""
        router: Any = self.model[0]
        columns = self._columns
        if not isinstance(router, Router) or not columns:
            return {}
        usual = dict.fromkeys(columns, router.default_route)
        if router.default_route is None:
            if len(usual) == 1 or not {"query", "document"} <= set(router.sub_modules):
                raise InputError(
                    f"the Router of {self.config.base} has the routes {', '.join(router.sub_modules)} but no "
                    "default_route",
                    "set default_route in its router_config.json, or train on pairs of query and document",
                )
            # Queries come first, as losses have them.
            usual = dict(zip(usual, ["query", *["document"] * (len(usual) - 1)], strict=True))
        return {name: self.role_of(name) or route for name, route in usual.items()}

    def _announce_truncation(self, prompts: Mapping[str, str]) -> None:
        """Say how many texts, with the prompt of their column, are truncated."""
        tokenizer: Any = self.model.tokenizer
        # A static encoder's bare tokenizer never truncates.
        bare = isinstance(tokenizer, Tokenizer) or not hasattr(tokenizer, "num_special_tokens_to_add")
        if bare or self.max_length is None or self.rows is None:
            return
        kind, rows = "training", self.rows
        if len(rows) > _ROWS_MEASURED:
            kind, drawn = "drawn", np.random.default_rng(0).choice(len(rows), _ROWS_MEASURED, replace=False)
            rows = rows.select(np.sort(drawn))
        room = self.max_length - tokenizer.num_special_tokens_to_add()
        count = truncated = 0
        for name, prompt in prompts.items():
            tokens = Tokens(tokenizer, room, prompt=prompt)
            texts = [text for text in rows[name] if isinstance(text, str)]  # no pairs
            count += len(texts)
            truncated += int((tokens.lengths(texts) > tokens.room).sum())
        among = f"{truncated:,} of {count:,} {kind} texts are"
        if truncated and self.config.max_length is None:
            self.announce(f"{among} truncated to {room} tokens, the limit of the encoder")
        elif truncated:
            self.announce(
                f"{among} longer than {room} tokens (--max-length {self.max_length}) and are truncated; "
                "raise --max-length to use more of them"
            )


AnySession = TypeVar("AnySession", bound=Session)


def run_session(config: Any, make: Callable[[], AnySession], *, resume: bool) -> tuple[AnySession, Run]:
    """Build a session on every process and run it."""
    config.check_single_seed()
    # Before anything slow: a taken folder need not wait for a model to load.
    on_main(lambda: RunFolder(Path(config.output)).check(config, resume=resume))
    with without_upstream_bars():
        session = on_all(make)
        return session, session.run(resume=resume)


def _load_trainable(config: Any) -> SentenceTransformer:
    """Load the base in float32, whatever it is stored in: fewer bits would round small steps away."""
    if (processes := process_state().num_processes) > config.batch_size:
        raise InputError(
            f"batch_size {config.batch_size} is too small for {processes} processes",
            "raise --batch-size or start fewer processes",
        )
    slow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    if config.precision == "bfloat16" and slow and not torch.accelerator.is_available():
        logger.warning(
            "this CPU does not have bfloat16 instructions: training with --precision float32 is several "
            "times faster"
        )
    model = load(config.base, pooling=config.pooling)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(
            f"{config.base} does not have trainable weights ({type(model[0]).__name__})",
            "use a transformer or a static model; to train word vectors, set update_embeddings in "
            "their wordembedding_config.json",
        )
    return with_truncation_as_module(model.float())


def _fitting_length(config: Any, model: SentenceTransformer) -> int | None:
    """Return the longest training input in tokens; None where a model has no limit and none is set."""
    longest = longest_input(model)
    chosen: int | None = config.max_length
    if chosen is None or longest is None:
        return longest if chosen is None else chosen
    if chosen < (shortest := shortest_input(model)):
        raise InputError(f"max_length {chosen} leaves no room for a text", f"set it to {shortest} or more")
    default = type(config).model_fields["max_length"].default
    if recipe := RECIPES.get(config.recipe):
        default = recipe.values(config.preset).get("max_length")
    if longest < chosen != default:
        logger.warning("max_length %d is above the limit of the model; %d is used", chosen, longest)
    return min(chosen, longest)


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
