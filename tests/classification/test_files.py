"""A user's own tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.classification import read_own_labelled, read_own_texts
from sentemb.errors import InputError

Write = Callable[[str, str], Path]


def test_texts_and_pairs(write_file: Write) -> None:
    table = write_file("rows.csv", "first,second,kind\na cat,the dog,same\na man,a mat,other\n")
    data = read_own_labelled(table, columns=["first", "second"], label="kind")
    assert (data.texts, data.pairs) == (["a cat", "a man"], ["the dog", "a mat"])
    assert (data.label_names, data.labels.tolist()) == (("other", "same"), [1, 0])
    assert read_own_texts(table, columns=["first"]) == ["a cat", "a man"]
    assert read_own_texts(table, columns=["first", "second"]) == [("a cat", "the dog"), ("a man", "a mat")]
    assert read_own_texts(write_file("lines.txt", "a cat\na man\n")) == ["a cat", "a man"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,kind\na,b\n", {}, "label"),
        ("words,label\na,b\n", {}, "text"),
        ("text,label\na,b\n ,b\n", {}, "column 'text' of row 2 is empty"),
        ("text,label\na,new\n", {"label_names": ("old", "older")}, "'new' is not a label"),
        ("text,label\na,b\n", {"columns": ("a", "b", "c")}, "text columns are a, b, c"),
        ("text,label\na,b\n", {"columns": ("text", "text")}, "text columns are text, text"),
    ],
)
def test_user_errors_are_clear(write_file: Write, content: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_own_labelled(write_file("rows.csv", content), **options)


def test_a_table_without_rows_cannot_be_classified(write_file: Write) -> None:
    with pytest.raises(InputError):
        read_own_texts(write_file("rows.csv", "text\n"))
