"""One run of masked language modelling, from text to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from sentemb._files import read_json, sha256_of
from sentemb.pretraining.budget import Budget
from sentemb.pretraining.card import pretraining_card
from sentemb.pretraining.corpus import Corpus
from sentemb.pretraining.masking import WholeWordMasking
from sentemb.pretraining.model import first_position, save_model
from sentemb.pretraining.prepare import paths, prepare_model, prepare_stores, prepare_tokenizer
from sentemb.pretraining.rows import DocumentRows, PackedRows, Rows, Visits
from sentemb.pretraining.store import TokenStore
from sentemb.pretraining.throughput import choose_dtype, throughput_record
from sentemb.pretraining.trainer import CLOCK_FILE, MaskedTrainer, training_arguments
from sentemb.training.callbacks import SpeedCallback
from sentemb.training.card import write_card
from sentemb.training.checkpoints import checkpoints
from sentemb.training.config import PretrainConfig
from sentemb.training.outcome import Run
from sentemb.training.progress import ENDLESS, ConsoleProgress
from sentemb.training.session import Session


class PretrainSession(Session):
    """A run that trains a masked language model; its tokenizer and tokenised text lie in the run folder."""

    config: PretrainConfig
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    stores: tuple[TokenStore, TokenStore]

    def __init__(self, config: PretrainConfig, *, progress: ConsoleProgress | None) -> None:
        super().__init__(config, progress=progress)
        self.budget = Budget(config.max_steps, config.max_minutes, save_minutes=config.save_minutes)
        self.speed = SpeedCallback(config.batch_size)
        exclude, share = paths(config.exclude), config.validation_share
        self.corpus = Corpus.scan(paths(config.corpus), exclude, validation_share=share)

    def prepare(self) -> None:
        """Tokenise the text and make the model."""
        config, run = self.config, self.folder.run
        saved = checkpoints(self.folder.checkpoints)
        if saved:
            self.budget.elapsed = float(read_json(saved[-1][1] / CLOCK_FILE)["seconds"])
        cache = run / "data" if config.cache is None else Path(config.cache).expanduser()
        self.tokenizer = prepare_tokenizer(config, self.corpus, run / "tokenizer")
        self.stores = prepare_stores(config, self.corpus, self.tokenizer, cache)
        self.model = prepare_model(config, self.tokenizer, self.stores[0], resumed=bool(saved))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer."""
        config = self.config
        training, validation = (self._rows(store) for store in self.stores)
        start = first_position(self.model)
        collator = WholeWordMasking(
            self.tokenizer,
            rate=config.masking_rate,
            seed=self.seed,
            isolate=config.layout == "packed" and start is not None,
            first_position=start or 0,
        )
        arguments = training_arguments(config, self.folder.checkpoints)
        dtype = choose_dtype(config.precision, arguments.device)
        length = config.length if training.lengths is None else float(training.lengths.mean())
        size = config.batch_size
        parameters = f"{self.model.num_parameters() / 1e6:.1f} M parameters"
        rows = f"{len(training)} rows of {length:.1f} tokens"
        self.announce(f"{parameters}, {rows}, {dtype} on {arguments.device}")
        return MaskedTrainer(
            self.model,
            config,
            arguments,
            budget=self.budget,
            tokens_per_step=length * size,
            dtype=dtype,
            train_dataset=Visits(training, ENDLESS * size, batch_size=size, seed=self.seed),
            eval_dataset=Visits(validation, len(validation), batch_size=size, seed=None),
            data_collator=collator,
            processing_class=self.tokenizer,
            callbacks=[self.budget, *callbacks],
        )

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        corpus = self.corpus
        data = {
            "source": "the corpus",
            "files": {path.name: sha256_of(path) for path in corpus.files},
            "documents": corpus.documents,
            "lines_left_out": len(corpus.leaks),
            "sentences_looked_for": corpus.excluded_sentences,
        }
        return {"data": data}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """The last weights are kept."""
        return {"metric": "loss on masked tokens of held-out documents"}

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Validation loss, time and throughput."""
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        return {
            "validation_loss": losses[-1] if losses else None,
            "seconds": round(self.budget.seconds(), 1),
            "throughput": throughput_record(
                trainer.model,
                tokens=kept.steps * trainer.tokens_per_step,
                seconds=self.budget.seconds(),
                length=self.config.length,
                masked_share=self.config.masking_rate,
                dtype=trainer.dtype,
            ),
        }

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write a transformers folder that SentenceTransformer loads, and its card."""
        save_model(folder, self.model, self.tokenizer)
        write_card(folder / "README.md", lambda: pretraining_card(self.config, record))

    def _rows(self, store: TokenStore) -> Rows:
        kind: type[PackedRows | DocumentRows] = PackedRows if self.config.layout == "packed" else DocumentRows
        return kind(store, self.config.length)

    def _is_over(self, checkpoint: Path) -> bool:
        return self.budget.progress(0) >= 1.0 or super()._is_over(checkpoint)
