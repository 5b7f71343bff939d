"""A run that trains a sentence encoder by a loss."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from tokenizers import Tokenizer
from transformers import TrainerCallback, set_seed

from sentemb._compat import Router
from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import Role, TextEncoder, Vectors, normalised
from sentemb.encoding.sentence import prompt_of
from sentemb.encoding.tokens import Tokens
from sentemb.encoding.view import with_truncation_as_module
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.lengths import longest_input, shortest_input
from sentemb.training.callbacks import SpeedCallback
from sentemb.training.config import EncoderConfig
from sentemb.training.objective import describe_loss
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import ranks
from sentemb.training.recipes import RECIPES
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
    uses_prompts: ClassVar[bool] = True
    """Whether the model is judged with its prompts, so that it is trained with them."""

    def __init__(
        self, config: EncoderConfig, *, progress: ConsoleProgress | None, rows: Dataset | None = None
    ) -> None:
        super().__init__(config, progress=progress, rule=StoppingRule(config.stopping, config.stopping_limit))
        self.use_last = config.use_last
        self.rows = rows
        # New layers of the model and the head of the loss draw from the generators.
        set_seed(self.seed)
        self.model = _trainable(load(config.base, pooling=config.pooling), config.base)  # type: ignore[arg-type]
        self.max_length = self._fitting_length()
        self._check_ranks()
        self.speed = SpeedCallback(config.batch_size * self.text_columns)
        slow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
        if config.precision == "bfloat16" and slow and not torch.accelerator.is_available():
            logger.warning(
                "this CPU does not have bfloat16 instructions: training with --precision float32 is "
                "several times faster"
            )

    @property
    def text_columns(self) -> int:
        """Texts in a training row."""
        return len(self._columns) or 1

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search; None if they are neither query nor document."""
        return None

    @property
    def _columns(self) -> list[str]:
        """The names of the text columns."""
        return [] if self.rows is None else [name for name in self.rows.column_names if name != LABEL]

    @property
    def _prompts(self) -> dict[str, str]:
        """The prompt of each text column."""
        columns = self._columns if self.uses_prompts else []
        prompts = {name: prompt_of(self.model, self.role_of(name)) for name in columns}
        return {name: prompt for name, prompt in prompts.items() if prompt}

    @property
    def _routes(self) -> dict[str, str]:
        """The route of each text column through the model's Router, if it has one."""
        router: Any = self.model[0]
        if not isinstance(router, Router) or not self._columns:
            return {}
        usual = dict.fromkeys(self._columns, router.default_route)
        if router.default_route is None:
            if len(usual) == 1 or not {"query", "document"} <= set(router.sub_modules):
                raise InputError(
                    f"the Router of {self.config.base} has the routes {', '.join(router.sub_modules)} "
                    "but no default_route",
                    "set default_route in its router_config.json, or train on pairs of query and document",
                )
            # Queries come first, as losses have them.
            usual = dict(zip(usual, ["query", *["document"] * (len(usual) - 1)], strict=True))
        return {name: self.role_of(name) or route for name, route in usual.items()}

    def describe(self) -> dict[str, Any]:
        """Say for the record what is trained."""
        loss = describe_loss(self.config.loss, self.loss)
        before = self.folder.read_record().get("loss", loss)
        if before.get("sha256") != loss.get("sha256"):
            raise InputError(
                f"the loss {self.config.loss} has changed since the run started (recorded in "
                f"{self.folder.record})",
                "restore the file, or start a new run with another --output",
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
                prompts=self._prompts,
                routes=self._routes,
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
        self.announce(f"encoding {len(texts):,} texts with the teacher {name}")
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
        room = self.max_length - tokenizer.num_special_tokens_to_add()
        count = cut = 0
        for name in self._columns:
            tokens = Tokens(tokenizer, room, prompt=self._prompts.get(name, ""))
            texts = [text for text in drawn[name] if isinstance(text, str)]  # no pairs
            count += len(texts)
            cut += int((tokens.lengths(texts) > tokens.room).sum())
        if cut:
            among = f"{count:,} {'training' if drawn is rows else 'drawn'} texts"
            self.announce(
                (
                    f"{cut:,} of {among} are longer than {room} tokens (--max-length {self.max_length}) "
                    "and are truncated; raise --max-length to use more of them"
                )
                if self.config.max_length is not None
                else f"{cut:,} of {among} are truncated to {room} tokens, the limit of the encoder"
            )

    def _check_ranks(self) -> None:
        """Refuse more processes than a batch has rows."""
        processes = ranks().num_processes
        if processes > self.config.batch_size:
            raise InputError(
                f"batch_size {self.config.batch_size} is too small for {processes} processes",
                "raise --batch-size or start fewer processes",
            )

    def _fitting_length(self) -> int | None:
        """Return the longest training input in tokens; None where a model has no limit and none is set."""
        longest = longest_input(self.model)
        if self.config.max_length is None:
            return longest
        if longest is not None and self.config.max_length < (shortest := shortest_input(self.model)):
            raise InputError(
                f"max_length {self.config.max_length} leaves no room for a text",
                f"set it to {shortest} or more",
            )
        if longest is not None and self.config.max_length > longest:
            if self.config.max_length != self._default_length():
                logger.warning(
                    "max_length %d is above the limit of the model; %d is used",
                    self.config.max_length,
                    longest,
                )
            return longest
        return self.config.max_length

    def _default_length(self) -> int | None:
        """Return the maximum length that is used if nobody sets one."""
        if recipe := RECIPES.get(self.config.recipe):
            length = recipe.values(self.config.preset).get("max_length")
        else:
            length = type(self.config).model_fields["max_length"].default
        return cast(int | None, length)


def _trainable(model: SentenceTransformer, base: str) -> SentenceTransformer:
    """The model in float32, whatever it is stored in: small steps would be rounded away in fewer bits."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(
            f"{base} does not have trainable weights ({type(model[0]).__name__})",
            "use a transformer or a static model; to train word vectors, set update_embeddings in "
            "their wordembedding_config.json",
        )
    return with_truncation_as_module(model.float())


def _training_arguments(
    config: EncoderConfig,
    checkpoints: Path,
    *,
    eval_steps: int,
    metric: str | None,
    eval_on_start: bool,
    prompts: dict[str, str],
    routes: dict[str, str],
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
        prompts=prompts,
        router_mapping=routes,
        # Upstream says of several processes that it drops the last batch, unless it is told to.
        dataloader_drop_last=True,
    )
    arguments.dataloader_drop_last = False
    return arguments
