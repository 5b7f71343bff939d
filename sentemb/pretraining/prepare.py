"""What a pre-training run starts from: tokenizer, tokenised text, model."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from sentemb._files import new_folder, sha256_of
from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.errors import InputError
from sentemb.modules.model_checks import check_vocabulary
from sentemb.pretraining.cooccurrence import cooccurrence_embeddings, token_frequencies
from sentemb.pretraining.corpus import Corpus
from sentemb.pretraining.model import (
    load_base,
    longest_input,
    new_bert,
    stack_layers,
    start_from_cooccurrence,
)
from sentemb.pretraining.store import TokenStore, build_store, store_key
from sentemb.pretraining.tokenizer import load_tokenizer, train_wordpiece
from sentemb.training.config import PretrainConfig

logger = logging.getLogger(__name__)


def paths(names: Sequence[str]) -> list[Path]:
    """Paths that a user wrote."""
    for name in filter(is_remote, names):
        raise InputError(
            f"{without_secrets(name)} is remote, but pretraining reads the corpus several times",
            "copy it to a local disk",
        )
    return [local_path(name).expanduser() for name in names]


def prepare_tokenizer(config: PretrainConfig, corpus: Corpus, folder: Path) -> PreTrainedTokenizerFast:
    """The base's tokenizer, or one trained on the corpus and kept in a folder of the run."""
    if config.base is not None:
        return load_tokenizer(config.base)
    if not folder.exists():
        started = time.monotonic()
        tokenizer = train_wordpiece(corpus.texts(), config.vocabulary)
        tokenizer.model_max_length = config.length  # positions beyond it stay untrained
        with new_folder(folder) as partial:
            tokenizer.save_pretrained(partial)
        logger.info("vocabulary of %d tokens built in %.0f s", len(tokenizer), time.monotonic() - started)
    return load_tokenizer(folder)


def prepare_stores(
    config: PretrainConfig, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> tuple[TokenStore, TokenStore]:
    """The tokenised parts of the corpus, made once for each corpus, tokenizer and split."""
    checksums = [sha256_of(path) for path in (*corpus.files, *paths(config.exclude))]
    key = store_key([tokenizer.backend_tokenizer.to_str(), str(config.validation_share), *checksums])
    stores = []
    for part in ("train", "validation"):
        place = folder / f"{part}-{key}"
        if not place.exists():
            if next(corpus.texts(part), None) is None:
                raise InputError(
                    f"the corpus has too few documents: none is left for {part}",
                    "add text or change validation_share",
                )
            build_store(place, corpus.texts(part), tokenizer)
        stores.append(TokenStore.open(place))
        logger.info(
            "%s: %d documents, %d tokens", part, len(stores[-1].documents) - 1, len(stores[-1].tokens)
        )
    return stores[0], stores[1]


def prepare_model(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, store: TokenStore, *, resumed: bool
) -> PreTrainedModel:
    """The base, stacked if so wanted, or a new BERT with its starting vectors."""
    (seed,) = config.seeds
    if config.base is not None:
        model = load_base(config.base, seed=seed)
        check_vocabulary(tokenizer, model, config.base)
        if config.stack_to is not None:
            model = stack_layers(model, config.stack_to)
    else:
        sizes = {
            name: getattr(config, name) for name in ("layers", "width", "heads", "inner_width", "positions")
        }
        model = new_bert(tokenizer, **sizes, seed=seed)
        # A resumed run takes its weights from the checkpoint.
        if config.initialise == "cooccurrence" and not resumed:
            vectors = cooccurrence_embeddings(store, len(tokenizer), config.width, seed=seed)
            frequencies = token_frequencies(store, len(tokenizer))
            start_from_cooccurrence(model, vectors, frequencies, scale=config.embedding_scale)
    if config.length > longest_input(model):
        raise InputError(
            f"length {config.length} is above the limit of the model, {longest_input(model)} positions",
            f"set --length to at most {longest_input(model)}",
        )
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = config.dropout
    return model
