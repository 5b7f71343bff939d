"""The tokenizer, and the rows: every token once an epoch, in an order that needs no state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining.tokens import Visits, load_tokenizer, open_rows, train_wordpiece, write_rows

TEXTS = ["The quick brown foxes are jumping over lazy dogs", "a fox jumped; the dog slept (déjà vu)"] * 30


def test_known_words_are_not_unknown_and_survive_a_round_trip(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 300)
    for text in TEXTS[:2]:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.tokenize("THE quick déjà") == tokenizer.tokenize("the quick deja")
    segments = tokenizer("the quick fox", "the fox")["token_type_ids"]
    assert (segments[0], segments[-1]) == (0, 1)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="does not contain a tokenizer"):
        load_tokenizer(tmp_path / "empty")


def test_the_rows_hold_every_document_whole(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    # More documents than are tokenized at once.
    many = lines * 8
    write_rows(tmp_path / "rows.arrow", many, tiny_tokenizer, 64)
    rows = open_rows(tmp_path / "rows.arrow")
    tokens = np.concatenate([row["tokens"] for row in rows])
    assert tokens.tolist() == [one for text in many for one in tiny_tokenizer(text)["input_ids"]]
    starts = np.concatenate([row["word_starts"] for row in rows])
    pieces = tiny_tokenizer.convert_ids_to_tokens(tokens.tolist())
    assert starts.tolist() == [not piece.startswith("##") for piece in pieces]


def test_damaged_and_empty_rows_are_refused(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    write_rows(path, [], tiny_tokenizer, 8)
    with pytest.raises(InputError, match="makes no tokens of the corpus"):
        open_rows(path)
    path.write_bytes(b"x" * 40)
    with pytest.raises(InputError, match=r"is damaged: .*; delete it to tokenize"):
        open_rows(path)


@pytest.mark.parametrize("length", [8, 13, 64])
def test_every_epoch_visits_every_token_once_in_another_order(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, length: int
) -> None:
    write_rows(tmp_path / "rows.arrow", lines, tiny_tokenizer, length)
    rows = open_rows(tmp_path / "rows.arrow")
    validation = Visits(rows, seed=None)
    blocks = [validation[number]["tokens"] for number in range(len(validation))]
    whole = [one for text in lines for one in tiny_tokenizer(text)["input_ids"]]
    assert np.concatenate(blocks).tolist() == whole
    assert {len(block) for block in blocks[:-1]} == {length}
    visits = Visits(rows, seed=5, count=3 * len(blocks))
    epochs = [
        [visits[epoch * len(blocks) + place]["tokens"].tobytes() for place in range(len(blocks))]
        for epoch in range(3)
    ]
    assert all(sorted(epoch) == sorted(block.tobytes() for block in blocks) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    fresh = Visits(rows, seed=5, count=3 * len(blocks))  # a visit does not depend on those before
    assert fresh[len(blocks) + 4]["tokens"].tobytes() == epochs[1][4]


def test_a_separator_alone_is_not_a_row(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    # [CLS], seven words and [SEP]: nine tokens
    for length in (8, 9, 10):
        write_rows(tmp_path / f"{length}", ["the cat sat on the mat quickly"], tiny_tokenizer, length)
        assert len(Visits(open_rows(tmp_path / f"{length}"), seed=None)) == 1
