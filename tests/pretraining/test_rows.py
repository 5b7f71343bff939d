"""Packing, cutting and ordering: every token once an epoch, in an order that needs no state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining.rows import DocumentRows, PackedRows, Visits
from sentemb.pretraining.store import TokenStore, build_store


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


@pytest.mark.parametrize("length", [8, 13, 64])
def test_packing_loses_and_repeats_no_token(store: TokenStore, length: int) -> None:
    rows = PackedRows(store, length)
    blocks = [rows[number][0] for number in range(len(rows))]
    assert np.array_equal(np.concatenate(blocks), store.tokens)
    assert {len(block) for block in blocks[:-1]} == {length}
    assert 0 < len(blocks[-1]) <= length


def test_long_documents_become_several_rows_without_loss(
    store: TokenStore, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    rows = DocumentRows(store, 9)
    inner = []
    for number in range(len(rows)):
        tokens, starts = rows[number]
        assert len(tokens) == len(starts) == rows.lengths[number] <= 9
        assert (tokens[0], tokens[-1]) == (tiny_tokenizer.cls_token_id, tiny_tokenizer.sep_token_id)
        inner.append(tokens[1:-1])
    special = [tiny_tokenizer.cls_token_id, tiny_tokenizer.sep_token_id]
    assert np.array_equal(np.concatenate(inner), store.tokens[~np.isin(store.tokens, special)])


@pytest.mark.parametrize("layout", [PackedRows, DocumentRows])
def test_every_epoch_visits_every_row_once_in_another_order(store: TokenStore, layout: type) -> None:
    rows = layout(store, 16)
    visits = Visits(rows, 3 * len(rows), batch_size=7, seed=5)
    numbers = {rows[number][0].tobytes(): number for number in range(len(rows))}
    epochs = [
        [visits[epoch * len(rows) + place]["tokens"].tobytes() for place in range(len(rows))]
        for epoch in range(3)
    ]
    everything = sorted(rows[number][0].tobytes() for number in range(len(rows)))
    assert all(sorted(epoch) == everything for epoch in epochs)
    assert len({tuple(numbers[row] for row in epoch) for epoch in epochs}) == 3


def test_a_visit_does_not_depend_on_the_visits_before(store: TokenStore) -> None:
    rows = DocumentRows(store, 16)
    everything = Visits(rows, 2 * len(rows), batch_size=7, seed=5)
    list(map(everything.__getitem__, range(len(rows) + 4)))
    fresh = Visits(rows, 2 * len(rows), batch_size=7, seed=5)
    assert np.array_equal(fresh[len(rows) + 4]["tokens"], everything[len(rows) + 4]["tokens"])


def test_batches_hold_rows_of_similar_length(store: TokenStore) -> None:
    rows = DocumentRows(store, 40)
    size = 8

    def padding(seed_rows: list[int]) -> float:
        batches = [seed_rows[start : start + size] for start in range(0, len(seed_rows), size)]
        return sum(max(batch) * len(batch) - sum(batch) for batch in batches) / sum(seed_rows)

    visits = Visits(rows, 2 * len(rows), batch_size=size, seed=1)
    # The second epoch too: its batches do not begin where the epoch does.
    bucketed = [len(visits[number]["tokens"]) for number in range(2 * len(rows))]
    shuffled = np.random.default_rng(0).permutation(bucketed).tolist()
    assert padding(bucketed) < 0.15 < padding(shuffled)


def test_too_short_rows_are_refused(store: TokenStore) -> None:
    with pytest.raises(InputError, match="too short"):
        PackedRows(store, 2)


def test_a_separator_alone_is_no_row(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    # [CLS], seven words and [SEP]: nine tokens
    store = build_store(tmp_path / "store", ["the cat sat on the mat quickly"], tiny_tokenizer)
    assert [len(PackedRows(store, length)) for length in (8, 9, 10)] == [1, 1, 1]
