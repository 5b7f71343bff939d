"""Pairs of a question and its passage: columns by usual names, any format, errors that name the columns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb.data.positive_pairs import find_pair_columns, load_positive_pairs, negative_column, pair_columns
from sentemb.errors import InputError

WriteFile = Callable[[str, str | bytes], Path]
ROW = ("how to x", "do y", "do z")


def parquet(names: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(zip(names, ROW, strict=False))]), buffer)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[tuple[str, ...]], str | bytes]] = {
    "pairs.csv": lambda names: f"{','.join(names)}\n{','.join(ROW[: len(names)])}\n",
    "excel.csv": lambda names: f"\ufeff{';'.join(names)}\r\n{';'.join(ROW[: len(names)])}\r\n",
    "pairs.tsv": lambda names: "\t".join(names) + "\n" + "\t".join(ROW[: len(names)]) + "\n",
    "pairs.jsonl": lambda names: json.dumps(dict(zip(names, ROW, strict=False))) + "\n",
    "pairs.parquet": parquet,
}


@pytest.mark.parametrize(
    "names",
    [
        ("anchor", "positive"),
        ("anchor", "positive", "negative"),
        ("query", "passage"),
        ("query", "positive", "negative"),
        ("question", "answer"),
        ("Question", "Context"),
        ("sentence1", "sentence2"),
        ("sent0", "sent1", "hard_neg"),
        ("query", "document", "Hard_Negative_1"),
    ],
)
@pytest.mark.parametrize("file", FORMATS)
def test_usual_names_in_every_format(write_file: WriteFile, file: str, names: tuple[str, ...]) -> None:
    found = load_positive_pairs(write_file(file, FORMATS[file](names)))
    assert found.names == names
    roles = ["anchor", "positive", "negative"][: len(names)]
    assert found.rows.column_names == roles
    assert found.rows[0] == dict(zip(roles, ROW, strict=False))


def test_other_columns_and_their_order_do_not_matter() -> None:
    present = ["id", "negative_2", "Answer", "negative_1", "source", "question"]
    assert find_pair_columns(present, "a") == ("question", "Answer", "negative_2", "negative_1")


def test_named_columns_take_roles_by_their_order(write_file: WriteFile) -> None:
    path = write_file("a.csv", "positive,anchor,score,n\np,a,s,n\n")
    found = load_positive_pairs(path, ["positive", "score", "anchor", "n"])
    assert found.rows[0] == {"anchor": "p", "positive": "s", "negative": "a", "negative_2": "n"}


def test_two_columns_without_a_header(write_file: WriteFile) -> None:
    lines = "how do I close a file in Python\tcall close\nhow to open one\tcall open\n"
    found = load_positive_pairs(write_file("a.tsv", lines))
    assert found.names == ("anchor", "positive")
    assert found.rows["anchor"][:] == ["how do I close a file in Python", "how to open one"]
    assert not pair_columns(write_file("a.csv", lines.replace("\t", ";"))).is_header


def test_repeated_rows_are_dropped_and_counted(write_file: WriteFile) -> None:
    found = load_positive_pairs(write_file("a.csv", "query,passage\na,p\n A ,P\na,q\n"))
    assert (found.rows["positive"][:], found.repeated) == (["p", "q"], 1)


def test_the_column_of_negatives_is_called_as_its_companions_are() -> None:
    assert negative_column(("question", "answer")) == "negative"
    assert negative_column(("sent0", "sent1")) == "hard_neg"
    assert negative_column(("question", "negative")) == "hard_negative"


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        (
            "a.csv",
            "ask,answer\nx,y\n",
            None,
            "does not have a column for the question, such as 'anchor' or 'query'",
        ),
        (
            "a.csv",
            "ask,answer\nx,y\n",
            None,
            "its columns are ask, answer; name the columns with --columns Q",
        ),
        (
            "a.jsonl",
            '{"query": "x", "txt": "y"}\n',
            None,
            "does not have a column for the passage, such as 'positive'",
        ),
        ("a.csv", "question,context,answer\nx,y,z\n", None, "the passage could be 'answer' or 'context'"),
        ("a.csv", "sentence1,sentence2,score\nx,y,0\n", None, "has a column 'score', so some of its"),
        ("a.csv", "query,passage\nx,\n", None, "a.csv:2: column 'passage' is empty"),
        (
            "a.jsonl",
            '{"query": "x", "passage": ["y"]}\n',
            None,
            "expected a text in column 'passage', but found ['y']",
        ),
        (
            "a.csv",
            "query,passage\nx,y\n",
            ["query"],
            "--columns query names 1 column, but pairs need two; name the columns",
        ),
        (
            "a.csv",
            "query,passage\nx,y\n",
            ["query", "passge"],
            "does not have a column 'passge'; its columns are query",
        ),
        ("a.txt", "x\n", None, "does not have a column for the question"),
        ("a.csv", "query,passage\n", None, "a.csv is empty"),
    ],
)
def test_errors_name_the_role_and_the_columns(
    write_file: WriteFile, name: str, content: str, columns: list[str] | None, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_positive_pairs(write_file(name, content), columns)
    assert message in str(caught.value)
