"""From plain text to a masked language model in a folder."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from sentemb._files import new_folder, read_json, sha256_of
from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.errors import InputError
from sentemb.modules.check import check_vocabulary
from sentemb.pretraining.corpus import Corpus
from sentemb.pretraining.masking import WholeWordMasking
from sentemb.pretraining.model import (
    first_position,
    load_base,
    longest_input,
    new_bert,
    save_model,
    start_from_cooccurrence,
)
from sentemb.pretraining.throughput import choose_dtype
from sentemb.pretraining.tokenizer import load_tokenizer, train_wordpiece
from sentemb.pretraining.tokens import TokenStore, Visits, build_store
from sentemb.pretraining.trainer import CLOCK_FILE, Budget, MaskedTrainer
from sentemb.training.card import Card, recipe_of, run_name, write_card
from sentemb.training.checkpoints import checkpoints
from sentemb.training.config import PretrainConfig as PretrainConfig
from sentemb.training.folder import RunFolder
from sentemb.training.outcome import Run
from sentemb.training.progress import ENDLESS, ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import refuse_several
from sentemb.training.session import Session
from sentemb.training.settings import shown

logger = logging.getLogger(__name__)

_LISTED_FILES = 5
_CITATION = """
@inproceedings{devlin-etal-2019-bert,
  title = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {NAACL-HLT 2019},
  pages = {4171--4186},
  year = {2019},
}"""


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
    config.check_single_seed("pretrain")
    if torch.cuda.device_count() > 1:
        raise InputError("more than one GPU is visible", "set CUDA_VISIBLE_DEVICES to one of them")
    refuse_several("masked language modeling")
    folder = Path(config.output)
    RunFolder(folder).check(config, resume=resume)
    with _cleanup_on_error(folder), without_upstream_bars():
        return PretrainSession(config, progress=progress).run(resume=resume)


@contextlib.contextmanager
def _cleanup_on_error(folder: Path) -> Iterator[None]:
    """Leave a folder absent or empty, as it was, after an error before the first checkpoint."""
    present = folder.exists()
    new = not present or not any(folder.iterdir())
    try:
        yield
    except InputError:
        if new and not any(folder.glob("run/checkpoints/checkpoint-*")):
            shutil.rmtree(folder, ignore_errors=True)
            if present:
                folder.mkdir(exist_ok=True)
        raise


class PretrainSession(Session):
    """A run that trains a masked language model; its tokenizer and tokenized text lie in the run folder."""

    config: PretrainConfig
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    stores: list[TokenStore]
    """Tokens of the training and of the validation split."""

    def __init__(self, config: PretrainConfig, *, progress: ConsoleProgress | None) -> None:
        super().__init__(config, progress=progress)
        self.budget = Budget(config.max_steps, config.max_minutes, save_minutes=config.save_minutes)
        corpus, exclude = local_paths(config.corpus), local_paths(config.exclude)
        self.corpus = Corpus.scan(corpus, exclude, validation_share=config.validation_share)

    def prepare(self) -> None:
        """Tokenize the text and make the model."""
        saved = checkpoints(self.folder.checkpoints)
        if saved:
            self.budget.elapsed = float(read_json(saved[-1][1] / CLOCK_FILE)["seconds"])
        self.tokenizer = self._make_tokenizer()
        self.stores = self._make_stores()
        self.model = self._make_model(resumed=bool(saved))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer."""
        config, start = self.config, first_position(self.model)
        training, validation = self.stores
        count = ENDLESS * config.batch_size
        visits = Visits(training, config.length, seed=self.seed, count=count)
        device = torch.accelerator.current_accelerator() or torch.device("cpu")
        dtype = choose_dtype(config.precision, device)
        size = f"{self.model.num_parameters() / 1e6:.1f} M parameters"
        self.announce(f"{size}, {visits.rows} rows of {config.length} tokens, {dtype} on {device}")
        return MaskedTrainer(
            self.model,
            config,
            self.folder.checkpoints,
            budget=self.budget,
            dtype=dtype,
            train_dataset=visits,
            eval_dataset=Visits(validation, config.length, seed=None),
            data_collator=WholeWordMasking(
                self.tokenizer,
                rate=config.masking_rate,
                seed=self.seed,
                isolate=start is not None,
                first_position=start or 0,
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
            "documents": corpus.documents,
            "lines_left_out": len(corpus.leaks),
            "sentences_looked_for": corpus.excluded_sentences,
        }
        return {"data": data}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return the name of the score; the last weights are kept."""
        return {"metric": "loss on masked tokens of held-out documents"}

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return validation loss, time and throughput."""
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        tokens, seconds = kept.steps * trainer.tokens_per_step, self.budget.seconds()
        throughput = {
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "precision": str(trainer.dtype).removeprefix("torch."),
        }
        validation_loss = losses[-1] if losses else None
        return {"validation_loss": validation_loss, "seconds": round(seconds, 1), "throughput": throughput}

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write a transformers folder that SentenceTransformer loads, and its card."""
        save_model(folder, self.model, self.tokenizer)
        write_card(folder / "README.md", lambda: pretraining_card(self.config, record))

    def _make_tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the base's tokenizer, or one trained on the corpus and kept in a folder of the run."""
        if self.config.base is not None:
            return load_tokenizer(self.config.base)
        folder = self.folder.run / "tokenizer"
        if not folder.exists():
            started = time.monotonic()
            tokenizer = train_wordpiece(self.corpus.texts(), self.config.vocabulary)
            tokenizer.model_max_length = self.config.length  # positions beyond it stay untrained
            with new_folder(folder) as partial:
                tokenizer.save_pretrained(partial)
            seconds = time.monotonic() - started
            logger.info("vocabulary of %d tokens built in %.0f s", len(tokenizer), seconds)
        return load_tokenizer(folder)

    def _make_stores(self) -> list[TokenStore]:
        """Return the tokenized parts of the corpus, those of an interrupted run if they are there."""
        stores = []
        for part in ("train", "validation"):
            place = self.folder.run / "data" / part
            if not place.exists():
                if next(self.corpus.texts(part), None) is None:
                    raise InputError(
                        f"the corpus has too few documents: none is left for {part}",
                        "add text or change validation_share",
                    )
                build_store(place, self.corpus.texts(part), self.tokenizer)
            store = TokenStore.open(place)
            logger.info("%s: %d documents, %d tokens", part, len(store.documents) - 1, len(store.tokens))
            stores.append(store)
        return stores

    def _make_model(self, *, resumed: bool) -> PreTrainedModel:
        """Return the base, or a new BERT with its starting vectors."""
        config, tokenizer = self.config, self.tokenizer
        if config.base is not None:
            model = load_base(config.base, seed=self.seed)
            check_vocabulary(tokenizer, model, config.base)
        else:
            sizes = ("layers", "width", "heads", "inner_width", "positions")
            model = new_bert(tokenizer, **{name: getattr(config, name) for name in sizes}, seed=self.seed)
            # A resumed run takes its weights from the checkpoint.
            if config.initialise == "cooccurrence" and not resumed:
                start_from_cooccurrence(model, self.stores[0], seed=self.seed)
        if config.length > longest_input(model):
            raise InputError(
                f"length {config.length} is above the limit of the model, {longest_input(model)} positions",
                f"set --length to at most {longest_input(model)}",
            )
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = config.dropout
        return model

    def _is_over(self, checkpoint: Path) -> bool:
        return self.budget.progress(0) >= 1.0 or super()._is_over(checkpoint)


def local_paths(names: Sequence[str]) -> list[Path]:
    """Return the paths that a user wrote."""
    for name in filter(is_remote, names):
        raise InputError(
            f"{without_secrets(name)} is remote, but pretraining reads the corpus several times",
            "copy it to a local disk",
        )
    return [local_path(name).expanduser() for name in names]


def pretraining_card(config: PretrainConfig, record: Mapping[str, Any]) -> str:
    """Return the text of the card of a masked language model."""
    name, data, loss, speed = (
        run_name(config.output),
        record["data"],
        record["validation_loss"],
        record["throughput"],
    )
    files = [f"{file} (SHA-256 {checksum[:16]}...)" for file, checksum in data["files"].items()]
    more = f" and {len(files) - _LISTED_FILES} more files" if len(files) > _LISTED_FILES else ""
    vocabulary = f"vocabulary of at most {config.vocabulary:,} tokens"
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
    code = [
        "from transformers import AutoModelForMaskedLM, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")',
        f'model = AutoModelForMaskedLM.from_pretrained("{name}")',
    ]
    return Card(
        name,
        "A pretrained base for sentence encoders: a masked language model trained with sentemb's "
        f"`{config.recipe}` recipe.",
        code,
        rows,
        _CITATION,
        config.base,
        library="transformers",
        pipeline="fill-mask",
        tags=("fill-mask",),
        after_code=f"`sentemb train simcse --base {name}` trains a sentence encoder from it.",
    ).text()
