"""A run that trains a sentence encoder by a loss."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments
from tokenizers import Tokenizer
from transformers import TrainerCallback, set_seed

from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import TextEncoder, Vectors, normalised
from sentemb.encoding.tokens import Tokens
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.lengths import shortest_input
from sentemb.training.callbacks import SpeedCallback
from sentemb.training.config import EncoderConfig
from sentemb.training.objective import describe_loss
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import ranks
from sentemb.training.run_trainers import MemoryTrainer, RunTrainer
from sentemb.training.session import Session
from sentemb.training.stopping import StoppingRule

logger = logging.getLogger(__name__)

_LOGS_PER_EVALUATION = 5
_KEPT_CHECKPOINTS = 2
_TAUGHT_AT_ONCE = 4096
_ROWS_MEASURED = 5000
"""Rows of which it is counted how many texts are cut; tokenising these takes a second."""


class EncoderSession(Session):
    """What runs that train an encoder have in common.

    The base is loaded as it is where the configuration names no pooling. A subclass makes `loss` and
    `evaluator` after this.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    config: EncoderConfig
    eval_on_start: ClassVar[bool] = False
    """Whether the untrained state is evaluated, and is the first candidate for the kept weights."""
    eval_steps: int
    """Optimizer steps between two evaluations, and between two checkpoints."""
    loss: Any
    """Trains the model."""

    def __init__(
        self, config: EncoderConfig, *, progress: ConsoleProgress | None, rows: Dataset | None = None
    ) -> None:
        super().__init__(config, progress=progress, rule=StoppingRule(config.stopping, config.stopping_limit))
        self.use_last = config.use_last
        self.rows = rows
        # New layers of the model and the head of the loss draw from the generators.
        set_seed(self.seed)
        self.model = load(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        self.max_length = self._fitting_length()
        self._check_ranks()
        self.speed = SpeedCallback(config.batch_size * self.text_columns)
        slow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
        if config.precision == "bfloat16" and slow and not torch.accelerator.is_available():
            logger.warning(
                "this CPU has no bfloat16 instructions: training in float32 is several times faster"
            )

    @property
    def text_columns(self) -> int:
        """Texts in a training row."""
        return 1 if self.rows is None else sum(name != LABEL for name in self.rows.column_names)

    def describe(self) -> dict[str, Any]:
        """Say for the record what is trained."""
        loss = describe_loss(self.config.loss, self.loss)
        before = self.folder.read_record().get("loss", loss)
        if before.get("sha256") != loss.get("sha256"):
            raise InputError(
                f"{self.config.loss} is not what the run began with, by {self.folder.record}",
                "begin a new run",
            )
        return {"precision": self.config.precision, "max_length": self.max_length, "loss": loss}

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool, in_memory: bool) -> Any:
        """Make the trainer of rows and loss."""
        metric = None if self.evaluator is None else self.evaluator.best_metric_key
        trainer = (MemoryTrainer if in_memory else RunTrainer)(
            self.model,
            _training_arguments(
                self.config,
                self.folder.checkpoints,
                eval_steps=self.eval_steps,
                metric=metric,
                eval_on_start=fresh and self.eval_on_start,
            ),
            train_dataset=self.rows,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
        )
        trainer.rows = self.config.batch_size
        trainer.data_collator.max_length = self.max_length
        if fresh and self.rows is not None:
            self._say_cut(self.rows)
        return trainer

    @property
    def kept_vectors(self) -> Path:
        """Where the teacher's vectors are until the run is over, so that a resumed run has them."""
        return self.folder.run / "teacher"

    def encode_by_teacher(self, teacher: TextEncoder, texts: Sequence[str], *, name: str) -> Vectors:
        """A teacher's vectors of texts, of length 1, with progress."""
        self.announce(f"{name} encodes {len(texts):,} texts")
        parts = []
        if self.progress is not None:
            self.progress.begin(len(texts))
        try:
            for first in range(0, len(texts), _TAUGHT_AT_ONCE):
                parts.append(normalised(teacher.encode(texts[first : first + _TAUGHT_AT_ONCE])))
                if self.progress is not None:
                    self.progress.advance(min(first + _TAUGHT_AT_ONCE, len(texts)))
        finally:
            if self.progress is not None:
                self.progress.close()
        return np.concatenate(parts)

    def _say_cut(self, rows: Dataset) -> None:
        """Say how many texts are longer than the model is trained with."""
        tokenizer: Any = self.model.tokenizer
        # A static encoder's bare tokenizer never cuts.
        if isinstance(tokenizer, Tokenizer) or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return
        drawn = rows
        if len(rows) > _ROWS_MEASURED:
            chosen = np.random.default_rng(0).choice(len(rows), _ROWS_MEASURED, replace=False)
            drawn = rows.select(np.sort(chosen))
        if self.max_length is None:
            return
        tokens = Tokens(tokenizer, self.max_length - tokenizer.num_special_tokens_to_add())
        columns = (drawn[name] for name in rows.column_names if name != LABEL)
        texts = [text for column in columns for text in column if isinstance(text, str)]  # no pairs
        cut = int((tokens.lengths(texts) > tokens.room).sum())
        if cut:
            among = f"{len(texts):,} training texts" if drawn is rows else f"{len(texts):,} drawn texts"
            self.announce(
                f"{cut:,} of {among} are longer than the {tokens.room} tokens that --max-length "
                f"{self.max_length} reads, and are cut there; a larger one reads more"
                if self.config.max_length is not None
                else f"{cut:,} of {among} are truncated to the {tokens.room} tokens that the encoder reads"
            )

    def _check_ranks(self) -> None:
        """Refuse more processes than a batch has rows."""
        processes = ranks().num_processes
        if processes > self.config.batch_size:
            raise InputError(
                f"{processes} processes cannot divide batch_size {self.config.batch_size}",
                "raise --batch-size or start fewer processes",
            )

    def _fitting_length(self) -> int | None:
        """Return the longest training input in tokens; None where a model has no limit and none is set."""
        longest = self.model.max_seq_length
        if self.config.max_length is None:
            return None if longest is None or math.isinf(longest) else int(longest)
        if longest is not None and self.config.max_length < (shortest := shortest_input(self.model)):
            raise InputError(
                f"max_length {self.config.max_length} leaves no room for a text",
                f"set it to {shortest} or more",
            )
        if longest is not None and self.config.max_length > longest:
            if "max_length" in self.config.model_fields_set:  # nobody asked for a default
                logger.warning(
                    "max_length %d is more than the model takes; using %d", self.config.max_length, longest
                )
            return int(longest)
        return self.config.max_length


def _training_arguments(
    config: EncoderConfig, checkpoints: Path, *, eval_steps: int, metric: str | None, eval_on_start: bool
) -> SentenceTransformerTrainingArguments:
    """A configuration in upstream's words."""
    warm = "constant_with_warmup" if config.warmup else "constant"
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=-(-config.batch_size // ranks().num_processes),
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
        eval_steps=eval_steps,
        eval_on_start=metric is not None and eval_on_start,
        metric_for_best_model=metric,
        greater_is_better=True,
        save_strategy="steps",
        save_steps=eval_steps,
        # With a limit of 1 upstream removes the newest checkpoint when an interrupted run ends.
        save_total_limit=_KEPT_CHECKPOINTS,
        logging_steps=max(1, eval_steps // _LOGS_PER_EVALUATION),
        seed=config.seeds[0],
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
        # Upstream says of several processes that it drops the last batch, unless it is told to.
        dataloader_drop_last=True,
    )
    arguments.dataloader_drop_last = False
    return arguments
