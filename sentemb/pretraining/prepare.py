"""What a pre-training run starts from: tokenizer, tokenised text, model."""

from __future__ import annotations

import logging
import time

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from sentemb._files import new_folder, sha256_of
from sentemb.errors import InputError
from sentemb.pretraining.config import PretrainConfig
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

logger = logging.getLogger(__name__)


def prepare_tokenizer(config: PretrainConfig, corpus: Corpus) -> PreTrainedTokenizerFast:
    """The base's tokenizer, or one trained on the corpus and kept in the run folder."""
    folder = config.output / "tokenizer"
    if config.base is not None:
        return load_tokenizer(config.base)
    if not folder.exists():
        started = time.monotonic()
        tokenizer = train_wordpiece(corpus.texts(), config.vocabulary)
        tokenizer.model_max_length = config.length  # positions beyond it stay untrained
        with new_folder(folder) as partial:
            tokenizer.save_pretrained(partial)
        logger.info("vocabulary of %d pieces in %.0f s", len(tokenizer), time.monotonic() - started)
    return load_tokenizer(folder)


def prepare_stores(
    config: PretrainConfig, corpus: Corpus, tokenizer: PreTrainedTokenizerFast
) -> tuple[TokenStore, TokenStore]:
    """The tokenised parts of the corpus, made once for each corpus, tokenizer and split."""
    key = store_key(
        [
            tokenizer.backend_tokenizer.to_str(),
            str(config.validation_share),
            *(sha256_of(path) for path in (*corpus.files, *config.exclude)),
        ]
    )
    stores = []
    for part in ("train", "validation"):
        folder = (config.cache or config.output / "data") / f"{part}-{key}"
        if not folder.exists():
            if next(corpus.texts(part), None) is None:
                raise InputError(f"no document for {part}", "give more text or change --validation-share")
            build_store(folder, corpus.texts(part), tokenizer)
        stores.append(TokenStore.open(folder))
        logger.info(
            "%s: %d documents, %d tokens", part, len(stores[-1].documents) - 1, len(stores[-1].tokens)
        )
    return stores[0], stores[1]


def prepare_model(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, store: TokenStore, *, resumed: bool
) -> PreTrainedModel:
    """The base, stacked if so wanted, or a new BERT with its starting vectors."""
    if config.base is not None:
        model = load_base(config.base, seed=config.seed)
        if len(tokenizer) > model.config.vocab_size:
            raise InputError(
                f"the tokenizer of {config.base} knows more tokens than the model", "mend the base"
            )
        if config.stack_to is not None:
            model = stack_layers(model, config.stack_to)
    else:
        model = new_bert(
            tokenizer,
            layers=config.layers,
            width=config.width,
            heads=config.heads,
            inner_width=config.inner_width,
            positions=config.positions,
            seed=config.seed,
        )
        # A resumed run takes its weights from the checkpoint.
        if config.initialise == "cooccurrence" and not resumed:
            vectors = cooccurrence_embeddings(store, len(tokenizer), config.width, seed=config.seed)
            frequencies = token_frequencies(store, len(tokenizer))
            start_from_cooccurrence(model, vectors, frequencies, scale=config.embedding_scale)
    if config.length > longest_input(model):
        raise InputError(f"--length {config.length} exceeds {longest_input(model)} positions", "lower it")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = config.dropout
    return model
