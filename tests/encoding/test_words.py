"""Files of word vectors: the format, the mean, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding import load_encoder
from sentemb.errors import InputError

GLOVE = "the 1 0 0\ncat 0 1 0\nwell-known 0 0 1\nUS 5 5 5\n. . . 9 9 9\n, 2 2 2\n"

WriteFile = Callable[[str, str | bytes], Path]


def test_mean_of_known_words(write_file: WriteFile, caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder(write_file("glove.txt", GLOVE))
    with caplog.at_level(logging.WARNING):
        vectors = encoder.encode(["The cat", "the unheard-of CAT,", "well-known US", "", "us", "The cat"])
    expected = [[0.5, 0.5, 0], [1, 1, 2 / 3], [2.5, 2.5, 3], [0, 0, 0], [0, 0, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert vectors.dtype == np.float32
    assert "2 of 5 texts do not contain a known word" in caplog.text
    assert (encoder.name, encoder.dimension) == ("glove.txt", 3)
    assert encoder.encode([]).shape == (0, 3)


def test_header_gzip_and_fingerprint(write_file: WriteFile) -> None:
    plain = load_encoder(write_file("w.vec", "6 3\n" + GLOVE))
    packed = load_encoder(write_file("w.vec.gz", gzip.compress(GLOVE.encode())))
    np.testing.assert_array_equal(plain.encode(["the cat"]), packed.encode(["the cat"]))
    assert plain.fingerprint == hashlib.sha256(("6 3\n" + GLOVE).encode()).hexdigest()


def test_words_with_spaces_and_line_separators(write_file: WriteFile) -> None:
    encoder = load_encoder(write_file("g.txt", "cat 1 2\nat name@domain.com 3 4\na\u2028b 5 6\n"))
    assert encoder.describe()["words"] == 3


def test_first_of_repeated_words_counts(write_file: WriteFile) -> None:
    encoder = load_encoder(write_file("g.txt", "cat 1 2\ncat 3 4\n"))
    assert encoder.encode(["cat"]).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.txt", "", "does not contain word vectors"),
        ("g.txt", "5 3\n", "does not contain word vectors"),
        ("g.txt", "cat 1 2\ndog 1\n", "line 2"),
        ("g.txt", "cat 1 2\ndog 1 x\n", "line 2: expected 2 numbers"),
        ("g.txt", "cat 1 2\ndog nan 2\n", "line 2: the word is missing, or a number is not finite"),
        ("g.txt", "cat\n", "line 1"),
        ("g.txt", "A sentence of prose.\n", "line 1: expected 3 numbers"),
        ("g.txt", b"caf\xe9 1 2\n", "line 1: byte 3 is not utf-8"),
        ("g.txt.gz", b"no gzip", "damaged, or not compressed"),
        ("g.txt.gz", gzip.compress(GLOVE.encode() * 500, mtime=0)[:-40], "is truncated"),
    ],
)
def test_wrong_files_are_one_line(
    write_file: WriteFile, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_encoder(write_file(name, content))
    assert "\n" not in str(caught.value)


def test_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"no such file: .*nothing\.vec"):
        load_encoder("/no/such/nothing.vec")


def test_relative_name_is_looked_for_in_the_data_folder(
    write_file: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file("vectors/g.txt", GLOVE)
    assert load_encoder("vectors/g.txt", data_dir=path.parents[1]).dimension == 3
    monkeypatch.setenv("SENTEMB_DATA", str(path.parents[1]))
    assert load_encoder("vectors/g.txt").dimension == 3
