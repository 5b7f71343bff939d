"""Texts that a model does not read whole are counted and said once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sentemb.encoding import load_encoder
from sentemb.encoding.tokens import tokens_of
from sentemb.encoding.truncation import report_pending, report_truncation
from sentemb.modules import load

SHORT = ["short", "ünd kürz", "word " * 8]
LONG = ["word " * 9, "ü " * 30]
MESSAGE = "2 texts are longer than the 8 tokens of sg-bert-mini and were truncated"


def test_a_warning_comes_with_the_first_and_never_again(caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder("sg-bert-mini", max_length=10)
    with caplog.at_level(logging.WARNING):
        encoder.encode(SHORT)
        assert not caplog.records
        for _ in range(2):
            encoder.encode([*SHORT, *LONG, *LONG])
        encoder.encode(["other " * 20])
    (record,) = caplog.records
    assert MESSAGE in record.getMessage() and "raise the maximum length" in record.getMessage()
    tokens = tokens_of(encoder)
    assert tokens is not None and len(tokens.cut) == 3


def test_a_command_says_at_its_end_how_many_there_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # the second time they are in the cache
        said: list[str] = []
        with report_truncation(said.append):
            for texts in ([*SHORT, LONG[0]], LONG, LONG):  # each time by another copy of the encoder
                encoder = load_encoder("sg-bert-mini", max_length=10, cache_dir=tmp_path)
                for text in texts:
                    encoder.encode([text])
            assert said == []
        (line,) = said
        assert MESSAGE in line and not caplog.records


def test_encoders_that_read_as_much_share_a_line() -> None:
    said: list[str] = []
    with report_truncation(said.append):
        for name, pooling in (("sg-bert-mini", None), ("bert-mini", "mean")):
            load_encoder(name, max_length=10, pooling=pooling).encode([*SHORT, *LONG])
        report_pending(said.append)  # before the next command is named
    (line,) = said
    assert line.startswith(MESSAGE.replace(" and were", " or 1 other model and were"))


def test_models_that_upstream_encodes_count_too(caplog: pytest.LogCaptureFixture) -> None:
    model = load("sg-bert-mini", max_length=10)
    model.prompts, model.default_prompt_name = {"p": "x: "}, "p"
    model[1].include_prompt = False
    encoder = load_encoder(model)
    assert encoder.describe()["backend"] == "SentenceTransformer.encode"
    encoder.encode(["word " * 6, "word " * 7])
    assert "1 text is longer than the 6 tokens" in caplog.text
