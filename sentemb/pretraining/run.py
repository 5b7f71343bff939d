"""A pre-training run from text to a model folder."""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from sentemb._files import new_folder, sha256_of, write_json
from sentemb.errors import InputError
from sentemb.pretraining.config import PretrainConfig
from sentemb.pretraining.corpus import Corpus
from sentemb.pretraining.masking import WholeWordMasking
from sentemb.pretraining.model import (
    first_position,
)
from sentemb.pretraining.prepare import prepare_model, prepare_stores, prepare_tokenizer
from sentemb.pretraining.recorder import Recorder, latest_checkpoint
from sentemb.pretraining.rows import DocumentRows, PackedRows, Rows, Visits
from sentemb.pretraining.schedule import Budget
from sentemb.pretraining.store import TokenStore
from sentemb.pretraining.throughput import choose_dtype, throughput_record
from sentemb.pretraining.trainer import ENDLESS, MaskedTrainer, training_arguments

logger = logging.getLogger(__name__)


def pretrain(config: PretrainConfig) -> Path | None:
    """Pre-train a new BERT, or go on pre-training a base, by masked language modelling.

    The run folder receives `settings.json`, `tokenizer/`, `data/` (tokenised text), `checkpoints/`,
    `metrics.jsonl`, `record.json` and, at the end, `model/`: a transformers folder that SentenceTransformer
    loads. Every complete checkpoint is such a folder too. SIGTERM saves a checkpoint and leaves.

    Args:
        config: The settings.

    Returns:
        The folder of the model; None when the run was told to stop before its end.

    Raises:
        InputError: Something given cannot be used.
    """
    if torch.cuda.device_count() > 1:
        raise InputError("more than one GPU is visible", "set CUDA_VISIBLE_DEVICES to one of them")
    budget = Budget(config.max_steps, config.max_minutes)
    with _unmade_by_a_mistake(config):
        checkpoint = _prepare_output(config, budget)
        corpus = Corpus.scan(config.corpus, config.exclude, validation_share=config.validation_share)
        tokenizer = prepare_tokenizer(config, corpus)
        training, validation = prepare_stores(config, corpus, tokenizer)
        model = prepare_model(config, tokenizer, training, resumed=checkpoint is not None)
    trainer, recorder = _trainer(config, budget, model, tokenizer, training, validation)
    with _stopped_by_sigterm(recorder):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if recorder.stop_requested:
        logger.info("stopped at step %d; go on with --resume", trainer.state.global_step)
        return None
    write_json(config.output / "record.json", _record(config, corpus, trainer, recorder))
    return save_model(config.output / "model", trainer.model, tokenizer)


def save_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, *, half: bool = False
) -> Path:
    """Write a model as a plain transformers folder.

    Args:
        folder: It must not exist yet.
        model: With its masked-language-model head, so that pre-training can go on from it.
        tokenizer: Saved beside it.
        half: Store float16 weights, half the size. The configuration still asks for float32, so that loaders
            compute in it.

    Returns:
        `folder`.

    Raises:
        InputError: The folder is taken.
    """
    with new_folder(folder) as partial:
        state = model.state_dict()
        if half:
            # One copy for each storage: tied weights have to stay tied, or they are written twice.
            halves = {value.data_ptr(): value.half() for value in state.values()}
            state = {name: halves[value.data_ptr()] for name, value in state.items()}
        model.save_pretrained(partial, state_dict=state)
        tokenizer.save_pretrained(partial)
    return folder


@contextlib.contextmanager
def _unmade_by_a_mistake(config: PretrainConfig) -> Iterator[None]:
    """A folder that was absent or empty before a mistake is so after it, for the mended command."""
    there = config.output.exists()
    new = not there or (config.output.is_dir() and not any(config.output.iterdir()))
    try:
        yield
    except InputError:
        if new:
            shutil.rmtree(config.output, ignore_errors=True)
        if new and there:
            config.output.mkdir()
        raise


@contextlib.contextmanager
def _stopped_by_sigterm(recorder: Recorder) -> Iterator[None]:
    # Only the main thread may set handlers; elsewhere the process keeps its own.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: recorder.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prepare_output(config: PretrainConfig, budget: Budget) -> Path | None:
    settings = config.output / "settings.json"
    if config.resume:
        if (config.output / "model").exists():
            raise InputError(
                f"the run in {config.output} is finished", "continue with --base and a new --output"
            )
        config.check_same(settings)
        found = latest_checkpoint(config.output / "checkpoints")
        if found is None:
            return None
        budget.elapsed = found[1]
        return found[0]
    if config.output.exists() and (not config.output.is_dir() or any(config.output.iterdir())):
        raise InputError(f"{config.output} already exists", "add --resume or choose another --output")
    config.save(settings)
    return None


def _trainer(
    config: PretrainConfig,
    budget: Budget,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    training: TokenStore,
    validation: TokenStore,
) -> tuple[MaskedTrainer, Recorder]:
    make: Any = PackedRows if config.layout == "packed" else DocumentRows
    rows: Rows = make(training, config.length)
    held_out: Rows = make(validation, config.length)
    start = first_position(model)
    collator = WholeWordMasking(
        tokenizer,
        rate=config.masking_rate,
        seed=config.seed,
        isolate=config.layout == "packed" and start is not None,
        first_position=start or 0,
    )
    size = config.batch_size
    arguments = training_arguments(
        config.output / "checkpoints",
        batch_size=size,
        learning_rate=config.learning_rate,
        max_steps=config.max_steps,
        log_steps=config.log_steps,
        seed=config.seed,
    )
    dtype = choose_dtype(config.precision, arguments.device)
    mean_length = config.length if rows.lengths is None else float(rows.lengths.mean())
    logger.info(
        "%.1f M parameters, %d rows of %.1f tokens, %s on %s",
        model.num_parameters() / 1e6,
        len(rows),
        mean_length,
        dtype,
        arguments.device,
    )
    recorder = Recorder(
        config.output / "metrics.jsonl",
        budget=budget,
        tokens_per_step=mean_length * size,
        save_minutes=config.save_minutes,
    )
    trainer = MaskedTrainer(
        model,
        arguments,
        train_dataset=Visits(rows, ENDLESS * size, batch_size=size, seed=config.seed),
        eval_dataset=Visits(held_out, len(held_out), batch_size=size, seed=None),
        collator=collator,
        tokenizer=tokenizer,
        budget=budget,
        warmup=config.warmup,
        embedding_rate=config.embedding_rate,
        dtype=dtype,
    )
    trainer.add_callback(recorder)
    return trainer, recorder


def _record(
    config: PretrainConfig, corpus: Corpus, trainer: MaskedTrainer, recorder: Recorder
) -> dict[str, Any]:
    return {
        "settings": config.to_dict(),
        "corpus": {path.name: sha256_of(path) for path in corpus.files},
        "documents": corpus.documents,
        "lines_left_out": len(corpus.leaks),
        "sentences_looked_for": corpus.excluded_sentences,
        "steps": trainer.state.global_step,
        "seconds": round(recorder.budget.seconds(), 1),
        "throughput": throughput_record(
            trainer.model,
            tokens=trainer.state.global_step * recorder.tokens_per_step,
            seconds=recorder.budget.seconds(),
            length=config.length,
            masked_share=config.masking_rate,
            dtype=trainer.dtype,
        ),
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers", "accelerate")},
        "threads": torch.get_num_threads(),
    }
