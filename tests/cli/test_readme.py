"""README.md: its commands have the options that they are given, and read what is there by then."""

from __future__ import annotations

import re
import shlex
from itertools import islice, pairwise, takewhile
from pathlib import Path

import pytest

from sentemb.cli.verbs import VERBS, Group
from sentemb.modules.bundled import bundled_names
from tests.cli.conftest import Command

README = Path(__file__).parents[2] / "README.md"
_BLOCKS = re.compile(r"^```(?:bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_READ = {"--texts", "--model", "--base", "--index", "--records"}
_ARGUMENTS = {
    "choose": 2,
    "adapt": 2,
    "compress": 2,
    "encode": 2,
    "compare": 2,
    "distill": 2,
    "eval": 3,
    "index": 3,
}
"""Where the arguments of a verb begin that are files, folders or models."""


def _commands() -> list[list[str]]:
    """The commands in their order, without the output that is shown with them."""
    lines = "\n".join(_BLOCKS.findall(README.read_text(encoding="utf-8"))).replace("\\\n", " ")
    commands = [line.removeprefix("$ ") for line in lines.splitlines()]
    programs = ("sentemb ", "cp ", "make ")
    return [shlex.split(line, comments=True) for line in commands if line.startswith(programs)]


SENTEMB = [words for words in _commands() if words[0] == "sentemb"]


@pytest.mark.parametrize("words", SENTEMB, ids=" ".join)
def test_options_are_those_of_the_verb(words: list[str], sentemb: Command) -> None:
    grouped = isinstance(VERBS[words[1]], Group) or words[1] == "train"
    verb = words[1 : 3 if grouped else 2]
    code, shown, _ = sentemb(*verb, "--help")
    assert code == 0
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){option}\b", shown), option


def _read(words: list[str]) -> set[str]:
    """The files, folders and models that a command of README takes."""
    if words[0] == "make":
        return set()
    if words[0] == "cp":
        return {words[1]}
    arguments = takewhile(lambda word: not word.startswith("-"), words[_ARGUMENTS.get(words[1], 2) :])
    named = set(islice(arguments, 1 if words[1] == "index" else None)) if words[1] in _ARGUMENTS else set()
    return named | {value for option, value in pairwise(words) if option in _READ}


def test_what_a_command_reads_is_there_by_then() -> None:
    there = {*bundled_names(), "all-MiniLM-L6-v2", "bm25", "hybrid:static-mini"}
    for words in _commands():
        assert _read(words) <= there, words
        if words[0] == "make":
            there.add("runs/quickstart/documents.jsonl")
        if words[0] == "cp":
            there.add(words[-1])
        there |= {value for option, value in pairwise(words) if option in ("--output", "--data-dir")}
