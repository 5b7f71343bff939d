from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb.errors import InputError
from sentemb.search.documents import Document, as_documents, read_documents

Write = Callable[[str, "str | bytes"], Path]


def test_every_form_of_a_document() -> None:
    given = ["a", ("x", "b"), (7, "c", {"year": 1999}), Document("d", id="y", location="here", title="Cats")]
    assert list(as_documents(given)) == [
        Document("a", 0, {}, "document 0"),
        Document("b", "x", {}, "document 1"),
        Document("c", 7, {"year": 1999}, "document 2"),
        Document("Cats d", "y", {}, "here"),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("corpus.txt", "collection of texts"),
        (Path("corpus.txt"), "read_documents"),
        ([3], "document 0 is a int"),
        ([("a",)], "document 0 is a tuple"),
        ([("a", None)], "the text is a NoneType"),
        ([(1.5, "text")], "the id 1.5 is neither"),
        ([(True, "text")], "the id True is neither"),
        ([(2**63, "text")], "more than 64 bits"),
        ([("a", "half \ud83d")], "surrogate"),
        ([("\ud83d", "text")], "surrogate"),
    ],
)
def test_what_is_no_document_is_named(given: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        list(as_documents(given))


def test_columns_become_text_id_and_metadata(write_file: Write) -> None:
    path = write_file("c.csv", "key,text,year\nk1,one cat,1999\nk2,two dogs,2001\n")
    found = list(read_documents(path, id_column="key"))
    assert [(document.id, document.text, document.metadata) for document in found] == [
        ("k1", "one cat", {"year": "1999"}),
        ("k2", "two dogs", {"year": "2001"}),
    ]
    assert str(path) in found[0].location
    path = write_file("q.jsonl", '{"question": "why?"}\n{"question": "how?"}\n')
    assert [document.text for document in read_documents(path)] == ["why?", "how?"]


@pytest.mark.parametrize(("name", "suffix"), [("id", ".csv"), ("_id", ".jsonl"), ("docno", ".csv")])
def test_ids_are_found_by_their_usual_names(write_file: Write, name: str, suffix: str) -> None:
    rows = {
        ".csv": f"title;{name};text\nCats;k1;sleep\n",
        ".jsonl": json.dumps({"text": "sleep", name: "k1"}),
    }
    (found,) = read_documents(write_file(f"c{suffix}", rows[suffix]))
    assert (found.id, name in found.metadata) == ("k1", False)
    (numbered,) = read_documents(write_file(f"c{suffix}", rows[suffix]), id_column="none")
    assert (numbered.id, numbered.metadata[name]) == (None, "k1")
    (found,) = read_documents(write_file("c.csv", "doc_id,id,text\nd,i,a\n"))
    assert (found.id, found.metadata) == ("i", {"doc_id": "d"})
    (found,) = read_documents(write_file("c.csv", "doc_id,id,text\nd,i,a\n"), text_column="id")
    assert (found.id, found.text) == (None, "i")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"text": "b"},
            r"c\.jsonl:2 does not have the column 'id', which contains the ids of the other rows",
        ),
        ({"text": "b", "id": None}, r"c\.jsonl:2: the id in column 'id' is null"),
        ({"text": "b", "id": " "}, r"c\.jsonl:2: the id in column 'id' is blank"),
        ({"text": "b", "id": 1.5}, r"c\.jsonl:2: the id in column 'id' is 1.5, not a string or an integer"),
        (
            {"text": "b", "id": {"$oid": 1}},
            r"c\.jsonl:2: the id in column 'id' is .*, not a string or an integer",
        ),
    ],
)
def test_a_row_without_an_id_among_others_is_named_with_the_option(
    write_file: Write, row: dict[str, object], words: str
) -> None:
    path = write_file("c.jsonl", json.dumps({"text": "a", "id": 1}) + "\n" + json.dumps(row))
    with pytest.raises(InputError, match=f"{words}.*--id-column none"):
        list(read_documents(path))
    assert len(list(read_documents(path, id_column="none"))) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the text could be in any of the columns a, b"),
        ({"text_column": "c"}, "does not have a column 'c'; its columns are a, b"),
        ({"text_column": "a", "id_column": "c"}, "does not have a column 'c'"),
        ({"text_column": "a", "id_column": "a"}, "the column 'a' is used for both texts and ids"),
    ],
)
def test_unknown_columns_are_named(write_file: Write, options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        list(read_documents(write_file("c.csv", "a,b\n1,2\n"), **options))


def test_metadata_become_values_of_json(tmp_path: Path) -> None:
    values = {
        "whole": (np.int64(3), 3),
        "share": (np.float32(0.5), 0.5),
        "flag": (np.bool_(True), True),
        "name": (np.str_("a"), "a"),
        "array": (np.array(4), 4),
        "list": (np.array([1.0, np.nan]), [1.0, None]),
        "moment": (np.datetime64("2020-01-02"), "2020-01-02"),
        "no moment": (np.datetime64("NaT"), None),
        "time": (datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC), "2020-01-02 03:00:00+00:00"),
        "nested": ({"deep": [float("inf"), (1, decimal.Decimal("2.50"))]}, {"deep": [None, [1, "2.50"]]}),
        "tensor": (torch.tensor(2.5), 2.5),
        "text": ("ä", "ä"),
        "none": (None, None),
        "large": (10**30, 10**30),
    }
    (document,) = as_documents([("a", "text", {name: given for name, (given, _) in values.items()})])
    assert document.metadata == {name: expected for name, (_, expected) in values.items()}
    assert json.loads(json.dumps(document.metadata, allow_nan=False)) == document.metadata
    assert document.metadata["flag"] is True
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table(
        {"text": ["a"], "day": [datetime.date(2020, 1, 2)], "score": [float("nan")], "n": [3]}
    )
    parquet.write_table(table, tmp_path / "c.parquet")
    (document,) = read_documents(tmp_path / "c.parquet")
    assert document.metadata == {"day": "2020-01-02", "score": None, "n": 3}
