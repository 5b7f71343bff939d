"""The store and the rows: every token once an epoch, in an order that needs no state."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining.tokens import TokenStore, Visits, build_store


def test_the_store_holds_every_document_whole(
    store: TokenStore, lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    for number in (0, 7, len(lines) - 1):
        start, end = store.documents[number : number + 2]
        assert store.tokens[start:end].tolist() == tiny_tokenizer(lines[number])["input_ids"]
        pieces = tiny_tokenizer.convert_ids_to_tokens(store.tokens[start:end].tolist())
        assert store.word_starts[start:end].tolist() == [not piece.startswith("##") for piece in pieces]


def test_an_empty_or_taken_store_is_refused(
    store: TokenStore, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="does not contain a document"):
        build_store(tmp_path / "empty", [], tiny_tokenizer)
    assert not (tmp_path / "empty").exists()
    with pytest.raises(InputError, match="already exists"):
        build_store(store.folder, ["a cat"], tiny_tokenizer)
    damaged = shutil.copytree(store.folder, tmp_path / "damaged")
    (damaged / "word_starts.raw").write_bytes(b"1")
    with pytest.raises(InputError, match="damaged is damaged: lengths differ; delete it to tokenize"):
        TokenStore.open(damaged)


@pytest.mark.parametrize("length", [8, 13, 64])
def test_every_epoch_visits_every_token_once_in_another_order(store: TokenStore, length: int) -> None:
    validation = Visits(store, length, seed=None)
    blocks = [validation[number]["tokens"] for number in range(len(validation))]
    assert np.array_equal(np.concatenate(blocks), store.tokens)
    assert {len(block) for block in blocks[:-1]} == {length}
    assert 0 < len(blocks[-1]) <= length
    visits = Visits(store, length, seed=5, count=3 * len(blocks))
    epochs = [
        [visits[epoch * len(blocks) + place]["tokens"].tobytes() for place in range(len(blocks))]
        for epoch in range(3)
    ]
    assert all(sorted(epoch) == sorted(block.tobytes() for block in blocks) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    fresh = Visits(store, length, seed=5, count=3 * len(blocks))  # a visit does not depend on those before
    assert fresh[len(blocks) + 4]["tokens"].tobytes() == epochs[1][4]


def test_too_short_rows_are_refused(store: TokenStore) -> None:
    with pytest.raises(InputError, match="too short"):
        Visits(store, 2, seed=None)


def test_a_separator_alone_is_not_a_row(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    # [CLS], seven words and [SEP]: nine tokens
    store = build_store(tmp_path / "store", ["the cat sat on the mat quickly"], tiny_tokenizer)
    assert [len(Visits(store, length, seed=None)) for length in (8, 9, 10)] == [1, 1, 1]
