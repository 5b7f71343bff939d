"""The bundled text is clean and fair; the standard library's docstrings answer the bundled questions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from sentemb.data import read_rows
from sentemb.data.bundled_text import (
    MAX_WORDS,
    bundled_pairs,
    bundled_questions,
    bundled_sentences,
    bundled_sentences_file,
    bundled_uses,
    clean_documentation,
    name_in_words,
    stdlib_documents,
)
from sentemb.data.documents import Document


def folded(text: str) -> str:
    """Return a text without case and punctuation, which would hide a duplicate."""
    return " ".join(re.findall(r"\w+", text.casefold()))


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    corpus = list(stdlib_documents())
    found = {document.id: document for document in corpus}
    assert len(found) == len(corpus) > 4000
    return found


def test_nearly_all_questions_can_be_answered(documents: dict[str, Document]) -> None:
    questions = bundled_questions()
    assert Counter(one.split for one in questions) == {"dev": 60, "test": 158}
    assert len({folded(one.text) for one in questions}) == 218
    answered = [one for one in questions if documents.keys() & {*one.answers}]
    assert len(answered) >= 215, "documents have changed, or this Python is another one"
    assert len({name.partition(".")[0] for one in answered for name in one.answers}) > 60


def test_pairs_and_sentences_are_clean_unique_and_in_no_sts_set(shared_data: Path) -> None:
    pairs, sentences = bundled_pairs(), bundled_sentences()
    assert len(pairs) >= 300 and len(pairs.subsets) >= 8 and len(sentences) >= 2000
    assert np.histogram(pairs.gold, bins=[0, 1, 2, 3, 4, 5.01])[0].min() >= 50
    every = sentences + pairs.first + pairs.second
    for sentence in every:
        assert sentence == " ".join(sentence.split()) and sentence[-1] in ".?!", sentence
    ours = Counter(map(folded, every))
    assert [text for text, count in ours.items() if count > 1] == []
    theirs = set()
    for path in (shared_data / "senteval" / "downstream").glob("S[TI]*/**/*"):
        if path.suffix in (".txt", ".csv"):
            theirs.update(map(folded, re.split("[\t\n]", path.read_text(encoding="utf-8", errors="replace"))))
    assert len(theirs) > 40_000 and not theirs & ours.keys()
    assert [row.values["text"] for row in read_rows(bundled_sentences_file())] == sentences
    readme = files("sentemb.data").joinpath("bundled", "README.md").read_text(encoding="utf-8")
    assert f"{len(pairs):,} pairs" in readme and f"{len(sentences):,} English sentences" in readme


def test_no_question_repeats_a_use() -> None:
    questions = [set(folded(one.text).split()) for one in bundled_questions()]
    first, last = questions[:120], questions[120:]  # the last are by a writer who saw none of this
    for text in bundled_uses().values():
        for sentence in re.split(r"(?<=[.?!]) (?=[A-Z0-9$])", text):
            words = set(folded(sentence).split())
            assert max(len(words & asked) / len(words | asked) for asked in first) <= 0.5, sentence
            assert words not in last, sentence


@pytest.mark.parametrize(
    ("identifier", "kind", "phrase"),
    [
        ("dict", "class", "new dictionary"),
        ("dict.get", "method", "Return the value for key"),
        ("sorted", "function", "in ascending order"),
        ("json.dumps", "function", "JSON formatted"),
        ("os.path.join", "function", "pathname components"),
        ("csv", "module", "CSV"),
        # Names without documentation, for their uses.
        ("csv.DictReader", "class", bundled_uses()["csv.DictReader"]),
        ("argparse.ArgumentParser.add_argument", "method", ""),
        ("Ellipsis", "data", bundled_uses()["Ellipsis"]),
    ],
)
def test_corpus_holds_what_people_look_for(
    documents: dict[str, Document], identifier: str, kind: str, phrase: str
) -> None:
    document = documents[identifier]
    assert document.text.startswith(f"{name_in_words(identifier)}: ")
    assert phrase in document.text and "Built-in functions" not in document.text
    assert document.metadata["kind"] == kind


def test_documents_are_public_unique_single_lines(documents: dict[str, Document]) -> None:
    for name, document in documents.items():
        body = document.text.removeprefix(f"{name_in_words(name)}: ")
        assert 3 <= len(body.split()) <= 3 * (MAX_WORDS + 3), document
        assert "\n" not in body and document.text == document.text.strip()
        assert not any(part.startswith("_") for part in name.split("."))
    modules = {document.metadata["module"].partition(".")[0] for document in documents.values()}
    assert not modules & {*"test this antigravity idlelib lib2to3 posixpath ntpath tkinter".split()}
    kept, repeated = "asyncio.gather str.zfill queue.Queue.put asyncio.Queue.put", "asyncio.tasks.gather"
    assert documents.keys() >= {*kept.split()}
    assert not documents.keys() & {repeated, "random.Random.choice", "bytes.zfill"}


def test_a_document_has_its_module_and_ends_with_its_uses(documents: dict[str, Document]) -> None:
    assert documents["shutil.rmtree"].text.startswith(
        "shutil rmtree: Recursively delete a directory tree. "
        "Utility functions for copying and archiving files and directory trees."
    )
    assert "manipulate time values." in documents["time.sleep"].text
    assert documents["StopIteration.value"].text == "Stop Iteration value: generator return value"
    uses = bundled_uses()
    known = uses.keys() & documents.keys()
    assert len(known) > 0.9 * len(uses), "this Python has other names"
    assert all(documents[name].text.endswith(f" {uses[name]}") for name in known)


def test_names_of_others_are_not_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    def display() -> None:
        """Show an object in the notebook."""

    display.__module__ = "IPython.display"
    monkeypatch.setattr("builtins.display", display, raising=False)
    some = {"os.no_such_name": "Do it.", "nosuchmodule.run": "Run it.", "os.environ": "Read a setting."}
    monkeypatch.setattr("sentemb.data.bundled_text.bundled_uses", lambda: some)
    corpus = list(stdlib_documents())
    builtins = [one.id for one in takewhile(lambda one: one.metadata["module"] == "builtins", corpus)]
    assert "print" in builtins and "display" not in builtins
    assert [document.id for document in corpus if document.id in some] == ["os.environ"]


def test_collecting_is_silent_and_the_same_every_time() -> None:
    program = (
        "import sys, hashlib\n"
        "from sentemb.data.bundled_text import stdlib_documents\n"
        "text = repr(list(stdlib_documents()))\n"
        "unwanted = {'this', 'antigravity', 'tkinter', 'turtle', 'torch'} & set(sys.modules)\n"
        "sys.exit(' '.join(unwanted) or hashlib.sha256(text.encode()).hexdigest())\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}, **options)
        for seed in ("1", "2")
    ]
    ((out, error),) = {process.communicate() for process in running}
    assert out == "" and len(error.strip()) == 64, error


def test_documentation_and_names_become_running_text() -> None:
    expected = {
        "Return `x`.\n\n    >>> f(1)\n    1\n\n    More about :func:`g`.": "Return x. More about g.",
        "Return the sum of all. Never fails.": "Return the sum of all.",
        "f(a) -> int\nf(a, b) -> int\n\nAdd what is given.": "Add what is given.",
        "f(a) -> the sum\n    of all\nIt never fails.": "It never fails.",
        "f(a) -> int\nf(**options) -> int": "f(a) -> int; f(**options) -> int",
        "Heading\n=======\n\nText.": "Heading Text.",
        "": "",
    }
    assert {documentation: clean_documentation(documentation) for documentation in expected} == expected
    assert len(clean_documentation("word " * 200).split()) == MAX_WORDS
    assert name_in_words("collections.OrderedDict.move_to_end") == "collections Ordered Dict move to end"
    assert name_in_words("io.TextIOWrapper") == "io Text IO Wrapper"
