from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from sentemb.data.documents import Document, read_documents, read_unique_documents, split_documents
from sentemb.errors import InputError


def test_titles_come_from_their_column(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("title,text,name\ncp,Copies files.,a\n,No title.,b\n")
    first, second = read_unique_documents(path)
    assert first == Document("Copies files.", title="cp", location=f"{path}:2")
    assert (first.whole, second.whole) == ("cp Copies files.", "No title.")
    named = read_unique_documents(path, text_column="title", title_column="name")
    assert [document.whole for document in named] == ["a cp", "b"]


def test_blank_and_repeated_documents_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("a", " ", "b", "a ", "a")))
    with caplog.at_level(logging.WARNING):
        assert [document.text for document in read_unique_documents(path)] == ["a", "b"]
    assert "2 of 5 documents are duplicates" in caplog.text
    assert "1 of 5 documents are blank" in caplog.text


@pytest.mark.parametrize("neighbor", ["queries.jsonl", "qrels/test.jsonl"])
def test_of_a_folder_in_the_layout_of_beir_every_reader_reads_the_corpus(
    tmp_path: Path, neighbor: str
) -> None:
    for name, text in (("corpus.jsonl", "a document"), (neighbor, "a question")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"_id": "1", "text": text}) + "\n")
    assert [document.whole for document in read_unique_documents(tmp_path)] == ["a document"]
    assert [(document.id, document.text) for document in read_documents(tmp_path)] == [("1", "a document")]


def test_of_any_other_folder_every_reader_reads_all_files(tmp_path: Path) -> None:
    for name, text in (("corpus.jsonl", "a document"), ("more.jsonl", "another")):
        (tmp_path / name).write_text(json.dumps({"id": text, "text": text}) + "\n")
    assert [document.whole for document in read_unique_documents(tmp_path)] == ["a document", "another"]
    assert [document.id for document in read_documents(tmp_path)] == ["a document", "another"]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": " "}\n')
    with pytest.raises(InputError, match="does not contain a document with a text"):
        read_unique_documents(path)
    path.write_text('{"a": "1", "b": "2"}\n')
    with pytest.raises(
        InputError, match=r"docs\.jsonl:1: the text could be in any of the columns a, b; .* --text-column"
    ):
        read_unique_documents(path)
    path.write_text('{"text": "a", "title": 3}\n')
    with pytest.raises(InputError, match=r"docs\.jsonl:1: expected a text in column 'title', but found 3"):
        read_unique_documents(path)


def test_a_table_without_a_header_does_not_lose_its_first_document(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("The cat slept all day on the mat\nThe dog ran\n")
    with pytest.raises(
        InputError, match=r"docs\.csv:2: the name of the only column, 'The cat slept .* a header"
    ):
        read_unique_documents(path)
    path.write_text("what they said\nThe dog ran\n")
    assert [document.text for document in read_unique_documents(path)] == ["The dog ran"]


def test_held_out_documents_are_a_share_of_all() -> None:
    documents = [Document(f"text {number}", str(number)) for number in range(50)]
    rest, out = split_documents(documents, share=0.2, seed=3)
    assert (len(rest), len(out)) == (40, 10)
    assert sorted(rest + out, key=documents.index) == documents
    assert split_documents(documents, share=0.2, seed=3)[1] == out
    assert split_documents(documents, share=0.2, seed=4)[1] != out
