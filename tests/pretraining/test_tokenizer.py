"""The WordPiece vocabulary: whole, uncased, and the same after a round trip to disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from sentemb.errors import InputError
from sentemb.pretraining.model import new_bert, save_model
from sentemb.pretraining.tokenizer import load_tokenizer, train_wordpiece

TEXTS = ["The quick brown foxes are jumping over lazy dogs", "a fox jumped; the dog slept (déjà vu)"] * 30


def test_known_words_are_not_unknown_and_survive_a_round_trip(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 300)
    for text in TEXTS[:2]:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.tokenize("THE quick déjà") == tokenizer.tokenize("the quick deja")
    assert tokenizer.decode(tokenizer("the quick brown foxes")["input_ids"], skip_special_tokens=True) == (
        "the quick brown foxes"
    )
    segments = tokenizer("the quick fox", "the fox")["token_type_ids"]
    assert (segments[0], segments[-1]) == (0, 1)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]


def test_a_saved_model_and_its_tokenizer_load_by_path(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 300)
    tokenizer.model_max_length = 32
    model = new_bert(tokenizer, layers=1, width=16, heads=2, inner_width=16, positions=32)
    folder = save_model(tmp_path / "model", model, tokenizer)
    encoder = SentenceTransformer(str(folder), device="cpu")
    assert encoder.max_seq_length == 32
    assert tokenizer.unk_token_id not in encoder.tokenize(["the quick fox"])["input_ids"]
    assert encoder.encode(["the quick fox " * 60]).shape == (1, 16)


def test_unusable_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too small"):
        train_wordpiece(TEXTS, 100)
    with pytest.raises(InputError, match="does not contain a tokenizer"):
        load_tokenizer(tmp_path)
