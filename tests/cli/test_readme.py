"""README.md is short, and its commands and programs run as printed, in order, in a folder like the clone.

They print what README shows, up to the numbers. Commands in `NOT_RUN` are checked by their options; stand-ins
take the place of their results.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sentemb.data.bundled_text import bundled_pairs_file, stdlib_documents
from sentemb.modules.cards import bundled_folder
from tests import processes
from tests.printed import Step, check_command, finish, serve_page, steps_of

README = Path(__file__).parents[2] / "README.md"
_WORDS = 900
_VARIES = {
    "sentemb choose": "its verdict names the systems that are best on this machine",
    "sentemb compare": "its records are stand-ins, on other pairs",
}
"""Commands whose output is not compared with README."""


_MODULES = ("os", "shutil", "pathlib", "tempfile", "threading", "json", "random", "string", "collections")
"""Modules whose documents take the place of all of Python's: the search finds its hits among them."""
_SMALLER = {
    "sentemb choose": ["--queries", "40", "--draws", "200", "--leaks", "none"],
    "sentemb adapt": ["--steps", "60"],
}
"""Options that let commands take seconds."""


def _documents_of_the_quickstart(clone: Path) -> None:
    path = clone / "runs" / "quickstart" / "documents.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = (one for one in stdlib_documents() if str(one.id).split(".")[0] in _MODULES)
    lines = ({"id": one.id, "text": one.text, **one.metadata} for one in chosen)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _bundled(model: str, name: str) -> Callable[[Path], None]:
    folder = bundled_folder(model)
    assert folder is not None
    return lambda clone: shutil.copytree(folder, clone / name) and None


def _records_of_the_bundled_pairs(clone: Path) -> None:
    words = ["eval", "sts", "my-encoder", "sg-bert-mini", "--sets", str(bundled_pairs_file())]
    finish(clone, processes.command, [*words, "--output", "records"])


def _nothing(clone: Path) -> None:
    pass


NOT_RUN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "make quickstart": ("it installs, as .ci/run does in a fresh clone", _documents_of_the_quickstart),
    "source": ("the tests run in an environment", _nothing),
    "make test": ("it runs these tests", _nothing),
    "sentemb distill": ("a transformer encodes for minutes", _bundled("static-mini", "static")),
    "sentemb data fetch": ("it needs the hub", _nothing),
    "sentemb train": ("it trains for two minutes", _bundled("static-mini", "my-encoder")),
    "sentemb eval sts": ("seven sets take minutes", _records_of_the_bundled_pairs),
}
"""The beginning of each command that is not run: the reason, and a function that makes its results."""


def _not_run(step: Step) -> str | None:
    return next((start for start in NOT_RUN if step.text.startswith(start)), None)


STEPS = steps_of(README.read_text(encoding="utf-8"), text_is_output=True)


def test_it_is_short() -> None:
    words = [word for word in README.read_text(encoding="utf-8").split() if re.search(r"\w", word)]
    assert len(words) <= _WORDS


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_its_links_lead_to_files_and_headings(name: str) -> None:
    text = (README.parent / name).read_text(encoding="utf-8")
    for path, heading in re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#([^)\s]+))?\)", text):
        target = README.parent / path
        assert target.exists(), path
        if heading:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}, (
                path
            )


class Clone:
    """The folder in which the steps run, each after those before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._finished: list[tuple[str | None, str]] = []

    def outcome(self, number: int) -> tuple[str | None, str]:
        """Run a step after all steps before it, and return its failure, None without one, and its output."""
        log = self.folder / "log"
        while len(self._finished) <= number:
            log.unlink(missing_ok=True)
            failure = _run(STEPS[len(self._finished)], self.folder)
            self._finished.append((failure, log.read_text(encoding="utf-8") if log.exists() else ""))
        return self._finished[number]


def _run(step: Step, clone: Path) -> str | None:
    if (start := _not_run(step)) is not None:
        return NOT_RUN[start][1](clone)
    if step.is_python:
        return finish(clone, processes.run_code, step.text)
    if step.words[:2] == ["sentemb", "serve"]:
        return serve_page(clone, step.words[1:])
    if step.words[0] == "sentemb":
        smaller = next((more for start, more in _SMALLER.items() if step.text.startswith(start)), [])
        return finish(clone, processes.command, [*step.words[1:], *smaller])
    ended = subprocess.run(["bash", "-c", step.text], cwd=clone, capture_output=True, text=True)
    return ended.stderr if ended.returncode else None


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("clone"))


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.text.splitlines()[0][:60] for step in STEPS])
def test_it_runs_as_printed(number: int, clone: Clone) -> None:
    step = STEPS[number]
    if step.text.startswith("sentemb serve"):
        pytest.importorskip("fastapi", reason="needs the extra serve")
    failure, printed = clone.outcome(number)
    assert failure is None, failure
    if (start := _not_run(step)) is not None:
        if step.is_sentemb:
            check_command(step.words[1:])
        pytest.skip(f"not run: {NOT_RUN[start][0]}")
    if not step.is_python:
        made = [value for option, value in pairwise(step.words) if option in ("--output", "-o")]
        assert all((clone.folder / name).exists() for name in made)
    if not step.text.startswith(tuple(_VARIES)):
        assert step.missing(printed, ("|", "next: sentemb")) == [], printed


def test_what_is_not_run_is_in_readme() -> None:
    assert {_not_run(step) for step in STEPS} - {None} == set(NOT_RUN)
