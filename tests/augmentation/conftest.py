"""Tiny translation models of random weights, saved as plain transformers folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import WORDS

SPECIALS = ("<pad>", "</s>", "<unk>", "__en__", "__de__")


def build_tokenizer(folder: Path) -> int:
    """Write a tokenizer of whole words that ends every text with </s>; gives the number of words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((*SPECIALS, *WORDS))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return len(vocabulary)


def build_t5(folder: Path, *, seed: int) -> Path:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=build_tokenizer(folder),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        dropout_rate=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = T5ForConditionalGeneration(config)
        torch.nn.init.normal_(network.shared.weight, std=0.5)  # wide, so that the input decides the output
    network.save_pretrained(folder)
    return folder


def build_marian(folder: Path, *, seed: int) -> Path:
    import torch
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=build_tokenizer(folder),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=24,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
        init_std=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        MarianMTModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_t5(tmp_path_factory.mktemp("t5"), seed=1)


@pytest.fixture(scope="session")
def tiny_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes 24 tokens, the end among them."""
    return build_marian(tmp_path_factory.mktemp("marian"), seed=2)


Texts = Callable[[int], list[str]]


@pytest.fixture
def texts() -> Texts:
    """Make unique texts of one to nine words."""
    import random

    def make(count: int) -> list[str]:
        generator = random.Random(0)
        found: dict[str, None] = {}
        while len(found) < count:
            found[" ".join(generator.choices(WORDS[:20], k=generator.randint(1, 9)))] = None
        return list(found)

    return make
