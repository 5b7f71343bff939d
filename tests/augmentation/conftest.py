"""Tiny translation models of random weights, saved as plain transformers folders."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WORDS

SPECIALS = ("<pad>", "</s>", "<unk>", "__en__", "__de__")
IDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "d_model": 16}


def build_tokenizer(folder: Path) -> int:
    """Write a tokenizer of whole words that ends every text with </s>; return the number of words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((*SPECIALS, *WORDS))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return len(vocabulary)


def build(folder: Path, seed: int, network: Callable[[int], Any]) -> Path:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network(build_tokenizer(folder)).save_pretrained(folder)
    return folder


def build_t5(folder: Path, *, seed: int) -> Path:
    def network(words: int) -> Any:
        from torch.nn import init
        from transformers import T5Config, T5ForConditionalGeneration

        sizes = {"vocab_size": words, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
        model = T5ForConditionalGeneration(T5Config(**sizes, **IDS, dropout_rate=0.1))
        init.normal_(model.shared.weight, std=0.5)  # wide, so that the input decides the output
        return model

    return build(folder, seed, network)


def build_marian(folder: Path, *, seed: int) -> Path:
    def network(words: int) -> Any:
        from transformers import MarianConfig, MarianMTModel

        sides = ("encoder", "decoder")
        sizes = {f"{side}_layers": 1 for side in sides} | {f"{side}_attention_heads": 2 for side in sides}
        sizes |= {f"{side}_ffn_dim": 32 for side in sides} | {"max_position_embeddings": 24}
        config = MarianConfig(vocab_size=words, **sizes, **IDS, forced_eos_token_id=1, init_std=0.5)
        return MarianMTModel(config)

    return build(folder, seed, network)


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_t5(tmp_path_factory.mktemp("t5"), seed=1)


@pytest.fixture(scope="session")
def tiny_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that takes 24 tokens, the end among them."""
    return build_marian(tmp_path_factory.mktemp("marian"), seed=2)


@pytest.fixture
def texts() -> Callable[[int], list[str]]:
    """Make unique texts of one to nine words."""

    def make(count: int) -> list[str]:
        generator, found = random.Random(0), dict[str, None]()
        while len(found) < count:
            found[" ".join(generator.choices(WORDS[:20], k=generator.randint(1, 9)))] = None
        return list(found)

    return make
