from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile

import pytest

from sentemb.data.bundled_text import bundled_uses
from sentemb.data.docstrings import (
    MAX_WORDS,
    clean_documentation,
    name_in_words,
    stdlib_documents,
)
from sentemb.data.documents import Document


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    return list(stdlib_documents())


@pytest.fixture(scope="module")
def documents(corpus: list[Document]) -> dict[str, Document]:
    return {document.id: document for document in corpus}


def test_corpus_is_large_and_its_ids_are_unique(
    corpus: list[Document], documents: dict[str, Document]
) -> None:
    assert len(corpus) > 4000
    assert len(documents) == len(corpus)


@pytest.mark.parametrize(
    ("identifier", "kind", "phrase"),
    [
        ("dict", "class", "new dictionary"),
        ("dict.get", "method", "Return the value for key"),
        ("sorted", "function", "in ascending order"),
        ("itertools.groupby", "class", "consecutive keys and groups"),
        ("json.dumps", "function", "JSON formatted"),
        ("collections.OrderedDict.move_to_end", "method", "Move an existing element"),
        ("random.choice", "function", "random element"),
        ("os.path.join", "function", "pathname components"),
        ("re.sub", "function", "replacing"),
        ("asyncio.gather", "function", "coroutines"),
        ("textwrap.dedent", "function", "leading whitespace"),
        ("csv", "module", "CSV"),
    ],
)
def test_corpus_holds_what_people_look_for(
    documents: dict[str, Document], identifier: str, kind: str, phrase: str
) -> None:
    document = documents[identifier]
    assert document.text.startswith(f"{name_in_words(identifier)}: ")
    assert phrase in document.text
    assert document.metadata["kind"] == kind


def test_texts_are_single_lines_of_bounded_length(documents: dict[str, Document]) -> None:
    for document in documents.values():
        body = document.text.removeprefix(f"{name_in_words(document.id)}: ")
        assert 3 <= len(body.split()) <= 3 * (MAX_WORDS + 3), document
        assert "\n" not in body
        assert document.text == document.text.strip()


def test_private_names_tests_and_programs_are_left_out(documents: dict[str, Document]) -> None:
    modules = {document.metadata["module"].partition(".")[0] for document in documents.values()}
    assert not modules & {
        "test",
        "this",
        "antigravity",
        "idlelib",
        "lib2to3",
        "posixpath",
        "ntpath",
        "tkinter",
    }
    assert not [name for name in documents if any(part.startswith("_") for part in name.split("."))]


def test_documentation_that_is_repeated_comes_once(documents: dict[str, Document]) -> None:
    assert "asyncio.gather" in documents
    assert "asyncio.tasks.gather" not in documents
    assert "random.Random.choice" not in documents
    assert "str.zfill" in documents
    assert "bytes.zfill" not in documents
    assert {"queue.Queue.put", "asyncio.Queue.put"} <= documents.keys()


def test_functions_that_others_put_into_builtins_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def display() -> None:
        """Show an object in the notebook."""

    display.__module__ = "IPython.display"
    monkeypatch.setattr("builtins.display", display, raising=False)
    builtins = takewhile(lambda document: document.metadata["module"] == "builtins", stdlib_documents())
    names = {document.id for document in builtins}
    assert "print" in names
    assert "display" not in names


def test_collecting_is_silent_and_the_same_every_time() -> None:
    program = (
        "import sys, hashlib\n"
        "from sentemb.data.docstrings import stdlib_documents\n"
        "text = repr(list(stdlib_documents()))\n"
        "unwanted = {'this', 'antigravity', 'tkinter', 'turtle', 'torch'} & set(sys.modules)\n"
        "sys.exit(' '.join(unwanted) or hashlib.sha256(text.encode()).hexdigest())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    printed = {process.communicate() for process in running}
    assert len(printed) == 1
    ((out, error),) = printed
    assert out == ""
    assert len(error.strip()) == 64, error


@pytest.mark.parametrize(
    ("documentation", "text"),
    [
        ("Return `x`.\n\n    >>> f(1)\n    1\n\n    More about :func:`g`.", "Return x. More about g."),
        ("Return the sum of all. Never fails.", "Return the sum of all."),
        ("f(a) -> int\nf(a, b) -> int\n\nAdd what is given.", "Add what is given."),
        ("f(a) -> the sum\n    of all\nIt never fails.", "It never fails."),
        ("f(a) -> int\nf(**options) -> int", "f(a) -> int; f(**options) -> int"),
        ("Heading\n=======\n\nText.", "Heading Text."),
        ("", ""),
    ],
)
def test_documentation_becomes_running_text(documentation: str, text: str) -> None:
    assert clean_documentation(documentation) == text


def test_a_sentence_without_end_is_cut() -> None:
    assert len(clean_documentation("word " * 200).split()) == MAX_WORDS


def test_a_document_says_what_its_module_is_about(documents: dict[str, Document]) -> None:
    assert documents["shutil.rmtree"].text.startswith(
        "shutil rmtree: Recursively delete a directory tree. "
        "Utility functions for copying and archiving files and directory trees."
    )
    assert "Built-in functions" not in documents["sorted"].text
    assert documents["StopIteration.value"].text == "Stop Iteration value: generator return value"
    assert "manipulate time values." in documents["time.sleep"].text


def test_a_document_ends_with_what_it_is_used_for(documents: dict[str, Document]) -> None:
    uses = bundled_uses()
    known = uses.keys() & documents.keys()
    assert len(known) > 0.9 * len(uses), "this Python has other names"
    assert all(documents[name].text.endswith(f" {uses[name]}") for name in known)
    assert documents["StopIteration.value"].text == "Stop Iteration value: generator return value"


@pytest.mark.parametrize(
    ("name", "module", "kind"),
    [
        ("csv.DictReader", "csv", "class"),
        ("os.environ", "os", "data"),
        ("getpass.getpass", "getpass", "function"),
        ("argparse.ArgumentParser.add_argument", "argparse", "method"),
        ("concurrent.futures.ThreadPoolExecutor", "concurrent.futures", "class"),
        ("Ellipsis", "builtins", "data"),
    ],
)
def test_names_without_documentation_are_there_for_their_uses(
    documents: dict[str, Document], name: str, module: str, kind: str
) -> None:
    document = documents[name]
    assert document.text.endswith(bundled_uses()[name])
    assert "Built-in functions" not in document.text
    assert document.metadata == {"module": module, "kind": kind}


def test_uses_of_a_name_that_this_python_lacks_are_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    some = {
        "os.no_such_name": "Do the impossible.",
        "nosuchmodule.run": "Run it.",
        "os.environ": "Read a setting.",
    }
    monkeypatch.setattr("sentemb.data.docstrings.bundled_uses", lambda: some)
    assert [document.id for document in stdlib_documents() if document.id in some] == ["os.environ"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("collections.OrderedDict.move_to_end", "collections Ordered Dict move to end"),
        ("io.TextIOWrapper", "io Text IO Wrapper"),
        ("sorted", "sorted"),
    ],
)
def test_names_are_taken_apart(name: str, words: str) -> None:
    assert name_in_words(name) == words
