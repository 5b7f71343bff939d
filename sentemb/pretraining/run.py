"""From plain text to a masked language model in a folder, in a run that ends by steps or by wall time."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from sentemb._files import new_folder, read_json, sha256_of, write_json
from sentemb._machine import faster_precision
from sentemb.errors import InputError
from sentemb.losses.base import bibtex
from sentemb.modules.check import check_vocabulary
from sentemb.pretraining.model import (
    first_position,
    load_base,
    longest_input,
    masked_loss,
    new_bert,
    start_from_cooccurrence,
)
from sentemb.pretraining.tokens import (
    Corpus,
    Visits,
    WholeWordMasking,
    load_tokenizer,
    open_rows,
    train_wordpiece,
    write_rows,
)
from sentemb.training.card import recipe_of, render_card
from sentemb.training.checkpoints import check_checkpoint, checkpoints, save_checkpoint
from sentemb.training.config import PretrainConfig as PretrainConfig
from sentemb.training.outcome import Run
from sentemb.training.progress import ENDLESS, ConsoleProgress
from sentemb.training.ranks import refuse_several
from sentemb.training.session import Session, run_session
from sentemb.training.settings import shown
from sentemb.training.trainer import check_finite, decay_groups

logger = logging.getLogger(__name__)

CLOCK_FILE = "clock.json"
_LISTED_FILES = 5
_CODE = """from transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForMaskedLM.from_pretrained("{name}")"""


class Budget(TrainerCallback):
    """Ends a run by steps or wall time, whichever is first, over all its parts; saves by wall time."""

    def __init__(self, config: PretrainConfig) -> None:
        self.config = config
        self.elapsed = 0.0  # seconds that earlier parts of the run took
        self._started: float | None = None
        self._saved = 0.0

    def seconds(self) -> float:
        """Return the seconds of training so far, over all parts of the run."""
        return self.elapsed + (0.0 if self._started is None else time.monotonic() - self._started)

    def progress(self, step: int) -> float:
        """Return the share of the run that is over."""
        by_step = step / self.config.max_steps if self.config.max_steps else 0.0
        by_clock = self.seconds() / (60 * self.config.max_minutes) if self.config.max_minutes else 0.0
        return min(1.0, max(by_step, by_clock))

    def learning_rate(self, step: int) -> float:
        """Return the factor of a linear warm-up from zero, then a linear decay to zero at the end."""
        progress, warmup = self.progress(step), self.config.warmup
        return progress / warmup if progress < warmup else (1.0 - progress) / (1.0 - warmup)

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start to count the time."""
        self._started = time.monotonic()
        self._saved = self.seconds()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Request a checkpoint when one is due, and the end when the budget is spent."""
        over = self.progress(state.global_step) >= 1.0
        if over or self.seconds() - self._saved >= 60 * self.config.save_minutes:
            self._saved = self.seconds()
            control.should_evaluate = control.should_save = True
        control.should_training_stop = control.should_training_stop or over


class MaskedTrainer(Trainer):
    """Follows a budget, and decodes at hidden positions only; weights stay float32 in any precision."""

    def __init__(
        self,
        model: PreTrainedModel,
        config: PretrainConfig,
        folder: Path,
        *,
        budget: Budget,
        precision: Literal["float32", "bfloat16"],
        **kwargs: Any,
    ) -> None:
        self.budget, self.precision = budget, precision
        self.tokens_per_step = config.length * config.batch_size
        embeddings = model.get_input_embeddings().weight
        groups = decay_groups(
            (one for one in model.parameters() if one is not embeddings), config.weight_decay
        )
        # Adam moves the rows of rare tokens as fast as all others; a lower rate protects what they know.
        rate = config.learning_rate * config.embedding_rate
        groups.append({"params": [embeddings], "lr": rate, "weight_decay": 0.0})
        optimizer = torch.optim.AdamW(
            groups, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True
        )
        arguments = TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=config.batch_size,
            per_device_eval_batch_size=config.batch_size,
            max_steps=config.max_steps or ENDLESS,
            max_grad_norm=config.clip,
            train_sampling_strategy="sequential",
            logging_steps=config.log_steps,
            logging_nan_inf_filter=False,
            save_strategy="no",
            eval_strategy="no",
            save_total_limit=2,
            prediction_loss_only=True,
            label_names=["masked_labels"],
            remove_unused_columns=False,
            dataloader_pin_memory=torch.cuda.is_available(),
            disable_tqdm=True,
            report_to=[],
            seed=config.seeds[0],
        )
        # The budget knows the end better than the steps do.
        schedule = LambdaLR(optimizer, budget.learning_rate)
        super().__init__(model, arguments, optimizers=(optimizer, schedule), **kwargs)
        # masked_loss is a mean already; upstream would take it for a sum.
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any) -> Any:
        """Compute the masked loss under autocast; see `transformers.Trainer.compute_loss`."""
        mixed = self.precision == "bfloat16"
        with torch.autocast(self.args.device.type, dtype=torch.bfloat16, enabled=mixed):
            loss = masked_loss(model, inputs)
        return (loss, {"loss": loss}) if return_outputs else loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Validate without touching the random state that dropout draws from: a loader draws a number."""
        with torch.random.fork_rng():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log losses with the seconds and tokens so far; one that is not finite ends the run."""
        if "loss" in logs or "eval_loss" in logs:
            tokens = self.state.global_step * self.tokens_per_step
            logs = logs | {"seconds": round(self.budget.seconds(), 1), "tokens": tokens}
        super().log(logs, start_time)
        check_finite(logs, step=self.state.global_step)

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint."""
        check_checkpoint(checkpoint)
        self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        save_checkpoint(self)

    def save_weights(self, folder: Path) -> None:
        """Write the model, its tokenizer and the time used."""
        self.model.save_pretrained(str(folder))
        self.processing_class.save_pretrained(str(folder))
        write_json(folder / CLOCK_FILE, {"seconds": self.budget.seconds()})


def pretrain(config: PretrainConfig, *, resume: bool = False, progress: ConsoleProgress | None = None) -> Run:
    """Pre-train a new BERT, or continue pre-training a base, by masked language modeling.

    The output is a transformers folder that SentenceTransformer loads; tokenized text, metrics and record are
    in `run/`. Every complete checkpoint is such a folder too. The same configuration and text on the same
    machine give the same weights, interrupted and resumed or not, unless wall time ends the run or a new
    vocabulary is made: the tokenizers library picks among equally frequent pieces at random.

    Args:
        config: The configuration, with one seed.
        resume: Resume the interrupted run in the output folder, if there is one. Its end may be another.
        progress: Where to show progress.

    Returns:
        The finished run.

    Raises:
        InputError: Something in the configuration, the corpus or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("mlm", overrides={"corpus": ["my.txt"], "output": "base"})
        >>> run = pretrain(config)  # doctest: +SKIP
    """
    if config.max_steps is None and config.max_minutes is None:
        raise InputError("the length of the run is not limited", "set max_steps, max_minutes or both")
    if torch.cuda.device_count() > 1:
        raise InputError("more than one GPU is visible", "set CUDA_VISIBLE_DEVICES to one of them")
    refuse_several("masked language modeling")
    return run_session(config, lambda: PretrainSession(config, progress=progress), resume=resume)[1]


class PretrainSession(Session):
    """A run that trains a masked language model; its tokenizer and tokenized text lie in the run folder."""

    config: PretrainConfig
    model: Any = None
    tokenizer: PreTrainedTokenizerFast

    def __init__(self, config: PretrainConfig, *, progress: ConsoleProgress | None) -> None:
        super().__init__(config, progress=progress)
        self.budget = Budget(config)
        self.corpus = Corpus(config.corpus, config.exclude, validation_share=config.validation_share)
        if config.base is not None:
            self.tokenizer = load_tokenizer(config.base)
            self.model = load_base(config.base, seed=self.seed)
            check_vocabulary(self.tokenizer, self.model, config.base)
            if config.length > (longest := longest_input(self.model)):
                raise InputError(
                    f"length {config.length} is above the limit of the model, {longest} positions",
                    f"set --length to at most {longest}",
                )

    def prepare(self) -> None:
        """Make a new tokenizer, tokenize the text, and make a new model; what is there is used again."""
        config, run, saved = self.config, self.folder.run, checkpoints(self.folder.checkpoints)
        if saved:
            self.budget.elapsed = float(read_json(saved[-1][1] / CLOCK_FILE)["seconds"])
        if config.base is None:
            if not (run / "tokenizer").exists():
                made = train_wordpiece(self.corpus.texts(), config.vocabulary)
                made.model_max_length = config.length  # positions beyond it stay untrained
                with new_folder(run / "tokenizer") as partial:
                    made.save_pretrained(partial)
            self.tokenizer = load_tokenizer(run / "tokenizer")
        parts = []
        for part in ("train", "validation"):
            path = run / "data" / f"{part}.arrow"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                write_rows(path, self.corpus.texts(part), self.tokenizer, config.length)
            parts.append(open_rows(path))
            logger.info("%s: %d documents, %d rows", part, self.corpus.documents[part], len(parts[-1]))
        if self.model is None:
            self.model = new_bert(self.tokenizer, config)
            if config.initialise == "cooccurrence" and not saved:
                opens = self.tokenizer.cls_token_id
                start_from_cooccurrence(self.model, parts[0], document_start=opens, seed=self.seed)
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = config.dropout
        self.visits = Visits(parts[0], seed=self.seed, count=ENDLESS * config.batch_size)
        self.validation = Visits(parts[1], seed=None)

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer."""
        config, model = self.config, self.model
        precision = faster_precision() if config.precision == "auto" else config.precision
        size = f"{model.num_parameters() / 1e6:.1f} M parameters"
        self.announce(f"{size}, {self.visits.rows} rows of {config.length} tokens, {precision}")
        return MaskedTrainer(
            model,
            config,
            self.folder.checkpoints,
            budget=self.budget,
            precision=precision,
            train_dataset=self.visits,
            eval_dataset=self.validation,
            data_collator=WholeWordMasking(
                self.tokenizer,
                rate=config.masking_rate,
                seed=self.seed,
                first_position=first_position(model),
            ),
            processing_class=self.tokenizer,
            callbacks=[self.budget, *callbacks],
        )

    def describe(self) -> dict[str, Any]:
        """Return for the record what the run is trained on."""
        corpus = self.corpus
        data = {
            "source": "the corpus",
            "files": {path.name: sha256_of(path) for path in corpus.files},
            "documents": corpus.documents.total(),
            "sentences_looked_for": corpus.excluded,
            "lines_left_out": corpus.skipped,
        }
        return {"data": data}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return the name of the score; the last weights are kept."""
        return {"metric": "loss on masked tokens of held-out documents"}

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return validation loss, time and throughput."""
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        tokens, seconds = kept.steps * trainer.tokens_per_step, self.budget.seconds()
        speed = {
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "precision": trainer.precision,
        }
        validation_loss = losses[-1] if losses else None
        return {"validation_loss": validation_loss, "seconds": round(seconds, 1), "throughput": speed}

    def write_model(self, folder: Path) -> None:
        """Write a transformers folder that SentenceTransformer loads."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def card(self, record: dict[str, Any]) -> str:
        """Return the text of the model's card."""
        config, data, speed = self.config, record["data"], record["throughput"]
        files = [f"{file} (SHA-256 {checksum[:16]}...)" for file, checksum in data["files"].items()]
        more = f" and {len(files) - _LISTED_FILES} more files" if len(files) > _LISTED_FILES else ""
        vocabulary = f"vocabulary of at most {config.vocabulary:,} tokens"
        loss = record["validation_loss"]
        rows = {
            "Size": None if config.base else f"{config.layers} layers of width {config.width}, {vocabulary}",
            "Training text": f"{', '.join(files[:_LISTED_FILES])}{more}: {data['documents']:,} documents",
            "Lines excluded": f"{data['lines_left_out']:,}" if config.exclude else None,
            "Recipe": recipe_of(config),
            "Masking rate": f"{config.masking_rate:g}, whole words",
            "Rows": f"{config.length} tokens, packed",
            "Batch size": config.batch_size,
            "Steps": f"{record['steps']:,}, {speed['tokens']:,} tokens",
            "Learning rate": f"{config.learning_rate:g}",
            "Precision": speed["precision"],
            "Seed": shown(config.seeds),
            "Validation loss": None if loss is None else f"{loss:.4f}, {record['dev']['metric']}",
        }
        return render_card(
            config,
            "A pretrained base for sentence encoders: a masked language model trained with sentemb's "
            f"`{config.recipe}` recipe.",
            _CODE,
            rows,
            bibtex("devlin-etal-2019-bert"),
            after_code="`sentemb train simcse --base {name}` trains a sentence encoder from it.",
            library="transformers",
            pipeline="fill-mask",
            tags=("fill-mask",),
        )

    def _is_over(self, checkpoint: Path) -> bool:
        return self.budget.progress(0) >= 1.0 or super()._is_over(checkpoint)
