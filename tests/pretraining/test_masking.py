"""Whole-word masking: whole words, no specials, the right shares, and batches that keep documents apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from sentemb.pretraining.tokens import Row, Visits, WholeWordMasking, open_rows, write_rows
from sentemb.training.progress import ENDLESS


@pytest.fixture(scope="module")
def rows(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> list[Row]:
    path = tmp_path_factory.mktemp("rows") / "rows.arrow"
    write_rows(path, lines, tiny_tokenizer, 64)
    visits = Visits(open_rows(path), seed=0, count=ENDLESS)
    return [visits[number] for number in range(40 * visits.rows)]


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_all_pieces_of_a_word_are_chosen_and_specials_never(
    rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast, rate: float
) -> None:
    masking = WholeWordMasking(tiny_tokenizer, rate=rate)
    split_words = 0
    for row in rows[:400]:
        hidden, chosen = masking.mask(row)
        assert len(chosen)
        assert not np.isin(row["tokens"][chosen], tiny_tokenizer.all_special_ids).any()
        untouched = np.setdiff1d(np.arange(len(hidden)), chosen)
        assert np.array_equal(hidden[untouched], row["tokens"][untouched])
        words = np.cumsum(row["word_starts"])
        for word in np.unique(words[chosen]):
            pieces = np.flatnonzero(words == word)
            split_words += len(pieces) > 1
            assert np.isin(pieces, chosen).all()
            masked = hidden[pieces] == tiny_tokenizer.mask_token_id
            assert masked.all() or not masked.any()
    assert split_words > 50


def test_shares_are_those_of_bert(rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    masking = WholeWordMasking(tiny_tokenizer, rate=0.15)
    pieces = chosen_pieces = masked = kept = 0
    for row in rows:
        hidden, chosen = masking.mask(row)
        ordinary = ~np.isin(row["tokens"], tiny_tokenizer.all_special_ids)
        if ordinary.sum() > 20:
            assert len(chosen) <= 0.15 * ordinary.sum()
        pieces += ordinary.sum()
        chosen_pieces += len(chosen)
        masked += (hidden[chosen] == tiny_tokenizer.mask_token_id).sum()
        kept += (hidden[chosen] == row["tokens"][chosen]).sum()
    assert 0.13 < chosen_pieces / pieces <= 0.15
    assert masked / chosen_pieces == pytest.approx(0.8, abs=0.02)
    # A random piece of a vocabulary of 26 is sometimes the right one.
    assert kept / chosen_pieces == pytest.approx(0.1 + 0.1 / 26, abs=0.02)


def test_the_draw_follows_the_visit_and_not_the_batch(
    rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    masking = WholeWordMasking(tiny_tokenizer)
    together = masking(rows[:4])["input_ids"]
    assert torch.equal(together[2:3], masking(rows[2:3])["input_ids"])
    again = Row(tokens=rows[0]["tokens"], word_starts=rows[0]["word_starts"], visit=999)
    assert not np.array_equal(masking.mask(again)[1], masking.mask(rows[0])[1])


def test_isolated_documents_are_seen_as_if_alone(
    tiny_bert: Path, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    first, second = "a cat sat on the mat", "two birds fly over the house"
    ids = [tiny_tokenizer(text)["input_ids"] for text in (first, second)]
    tokens = np.array(ids[0] + ids[1], dtype=np.int32)
    masking = WholeWordMasking(tiny_tokenizer)
    long = Row(tokens=np.resize(tokens, 40), word_starts=np.ones(40, dtype=bool), visit=1)
    batch = masking([Row(tokens=tokens, word_starts=np.ones(len(tokens), dtype=bool), visit=0), long])
    model = AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()
    padded = np.full(40, tiny_tokenizer.pad_token_id)
    padded[: len(tokens)] = tokens
    with torch.no_grad():
        packed = model(
            input_ids=torch.from_numpy(padded)[None],
            attention_mask=batch["attention_mask"][:1],
            position_ids=batch["position_ids"][:1],
        ).logits[0]
        alone = [model(input_ids=torch.tensor([one])).logits[0] for one in ids]
    torch.testing.assert_close(packed[: len(tokens)], torch.cat(alone))
    assert batch["position_ids"][0, : len(tokens)].tolist() == [*range(len(ids[0])), *range(len(ids[1]))]


def test_special_tokens_predict_nothing(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    tokens = np.array([tiny_tokenizer.cls_token_id, tiny_tokenizer.sep_token_id], dtype=np.int32)
    hidden, chosen = WholeWordMasking(tiny_tokenizer).mask(
        Row(tokens=tokens, word_starts=np.ones(2, dtype=bool), visit=0)
    )
    assert np.array_equal(hidden, tokens)
    assert len(chosen) == 0
