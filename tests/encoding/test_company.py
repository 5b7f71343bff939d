"""The vector of a text has the same bits whatever is encoded beside it, by any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sentemb.encoding.sentence as sentence
from sentemb._compat import packed_linear_dtypes
from sentemb.data.bundled_text import bundled_sentences
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.linear import LinearKernel
from sentemb.encoding.rows import ReadyTexts, row_encoder
from sentemb.modules import load

SENTENCES = bundled_sentences()[:60]
LONGER = [" ".join(SENTENCES[start : start + 3]) for start in range(0, 30, 3)]
TEXTS = [*SENTENCES, *LONGER, "", "a", "hello world", " ".join(SENTENCES[:20])]
KERNELS: list[LinearKernel] = ["stock", "packed", "packed-bfloat16"]


@pytest.fixture(params=[*KERNELS, "static"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TextEncoder:
    if request.param == "static":
        return load_encoder("static-mini")
    needed = {"packed": torch.float32, "packed-bfloat16": torch.bfloat16}.get(request.param)
    if needed is not None and needed not in packed_linear_dtypes():
        pytest.skip(f"this machine has no kernel {request.param}")
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: request.param)
    encoder = load_encoder("sg-bert-mini", device="cpu")
    encoder.encode(["packs the layers"])
    return encoder


@pytest.fixture
def three_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@pytest.mark.numeric
def test_any_company_and_none_gives_the_same_bits(encoder: TextEncoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)

    @settings(max_examples=25)
    @given(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=40))
    def any_company(rows: list[int]) -> None:
        np.testing.assert_array_equal(encoder.encode([TEXTS[row] for row in rows]), together[rows])

    any_company()


@pytest.mark.numeric
def test_the_same_bits_by_any_number_of_threads(encoder: TextEncoder, three_threads: None) -> None:
    by_three, alone = encoder.encode(TEXTS), encoder.encode(TEXTS[:1])
    torch.set_num_threads(1)
    np.testing.assert_array_equal(by_three, encoder.encode(TEXTS))
    np.testing.assert_array_equal(alone, by_three[:1])


@pytest.mark.numeric
def test_rows_of_several_requests_in_one_batch_have_the_same_bits(encoder: TextEncoder) -> None:
    rows = row_encoder(encoder)
    parts = [rows.prepare(TEXTS[:40]), rows.prepare(TEXTS[40:])]
    expected = [encoder.encode(TEXTS[:40]), encoder.encode(TEXTS[40:])]
    lengths = np.concatenate([ready.lengths for ready in parts])
    for length in np.unique(lengths):
        batch: list[tuple[ReadyTexts, np.ndarray]] = []
        wanted = []
        for ready, vectors in zip(parts, expected, strict=True):
            found = np.flatnonzero(ready.lengths == length)
            if len(found):
                batch.append((ready, found))
                wanted.append(vectors[found])
        np.testing.assert_array_equal(rows.compute(batch), np.concatenate(wanted))


def test_lengths_are_the_tokens_that_are_read(tiny_bert: Path) -> None:
    encoder = load_encoder(load(tiny_bert, pooling="mean", max_length=8, device="cpu"))
    ready = row_encoder(encoder).prepare(["the cat", "the cat sat on the mat in the park", ""])
    assert ready.lengths.tolist() == [4, 8, 2]
    assert list(ready.cut) == [1]


def test_an_encoder_of_an_unknown_kind_encodes_each_text_alone() -> None:
    calls: list[list[str]] = []

    def function(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    rows = row_encoder(load_encoder(function))
    ready = rows.prepare(["one two", "three"])
    assert not rows.by_length and ready.lengths.tolist() == [2, 1]
    assert rows.compute([(ready, np.array([0, 1]))]).tolist() == [[7, 1], [5, 1]]
    assert calls == [["one two"], ["three"]]
