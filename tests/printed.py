"""Commands and programs as documentation prints them: found, checked against the package, run."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from sentemb.cli.main import build
from tests import processes
from tests.serving.live import running

_BLOCKS = re.compile(r"^```(bash|console|python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_NUMBER = re.compile(r"[-+−]?\d[\d,.]*")
_ROW = re.compile(r"\|.*\d|\w+(,[\d.]+)+$")


class Step(NamedTuple):
    """A command, or a program in Python, with the output that is printed below it."""

    text: str
    is_python: bool = False
    output: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The words of a command, without the variables before it and the comment behind it."""
        words = shlex.split(self.text, comments=True)
        return words[len(self.variables) :]

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that a command sets for itself."""
        words = shlex.split(self.text, comments=True)
        found = {}
        for word in words:
            if not _ASSIGNMENT.match(word):
                break
            name, _, value = word.partition("=")
            found[name] = value
        return found

    @property
    def is_sentemb(self) -> bool:
        return not self.is_python and self.words[:1] == ["sentemb"]

    @property
    def error(self) -> str | None:
        """The error that is printed below a command."""
        return next((line for line in self.output if line.startswith("sentemb: error: ")), None)

    def missing(self, printed: str, differs: Iterable[str] = ()) -> list[str]:
        """Return the lines of the output that were not printed, whatever their numbers are.

        Rows of tables with numbers may differ, and lines that begin with one of `differs`. A page may wrap a
        line of JSON.
        """
        lines = [" ".join(self.output)] if "".join(self.output).startswith("{") else self.output
        lines = [" ".join(line.split()) for line in lines if not line.startswith(tuple(differs))]
        lines = [line.removesuffix("…").rstrip() for line in lines if not _ROW.match(line)]
        said = "\n".join(" ".join(line.split()) for line in printed.splitlines())
        return [line for line in lines if line and "…" not in line and not re.search(_pattern(line), said)]


def _pattern(line: str) -> str:
    return _NUMBER.pattern.join(re.escape(part) for part in _NUMBER.split(line))


def steps_of(markdown: str, *, text_is_output: bool = False) -> list[Step]:
    """Return the commands and programs of a page in their order.

    Args:
        markdown: The page.
        text_is_output: A block of text is the output of the program before it.
    """
    steps: list[Step] = []
    for language, content in _BLOCKS.findall(markdown):
        if language == "python":
            steps.append(Step(content, is_python=True))
        elif language == "text":
            if text_is_output:
                steps[-1] = steps[-1]._replace(output=tuple(content.splitlines()))
        elif language == "bash":
            lines = content.replace("\\\n", " ").splitlines()
            steps += [Step(line) for line in lines if line and not line.startswith("#")]
        else:
            steps += _session(content)
    return steps


def _session(content: str) -> Iterator[Step]:
    """Yield the commands after the prompts of a session, each with its output."""
    for part in re.split(r"^\$ ", content.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *output = part.splitlines()
        yield Step(command, output=tuple(output))


def check_command(words: list[str]) -> None:
    """Raise an error if a verb, an option or the type of a value of `sentemb WORDS` is unknown."""
    command: Any = build()
    name, rest, context = "sentemb", words, None
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, rest, parent=context)
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(name, rest, parent=context)


def check_program(code: str) -> None:
    """Raise an error if a program does not compile, or takes a name from sentemb that does not exist."""
    modules = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sentemb":
            assert node.module is not None
            for alias in node.names:
                assert hasattr(import_module(node.module), alias.name), f"{node.module} has no {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "sentemb":
                    modules[alias.asname or "sentemb"] = import_module(alias.name)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), f"{node.value.id} has no {node.attr}"


def in_folder(folder: str, target: Callable[..., None], *arguments: object) -> None:
    """Call a function in a folder, without a data folder."""
    os.chdir(folder)
    os.environ.pop("SENTEMB_DATA", None)  # a newcomer has none
    target(*arguments)


def finish(folder: Path, target: Callable[..., None], *arguments: object) -> str | None:
    """Call a function in a process and a folder of its own; return what went wrong."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    process = processes.start(in_folder, str(folder), target, *arguments, log=log)
    process.join()
    return f"exit code {process.exitcode}: {log.read_text()}" if process.exitcode else None


def serve_page(folder: Path, words: list[str]) -> str | None:
    """Run `sentemb serve` on a free port and open its search page; return what went wrong."""
    command = [*words, "--port", "0"]
    with running(folder / "log", in_folder, str(folder), processes.command, command) as server:
        page = httpx.get(f"{server.address}/", timeout=None, follow_redirects=True)
        return None if page.status_code == 200 and "<input" in page.text else f"no search page: {page}"
