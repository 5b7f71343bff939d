"""English text that comes with the package or with Python, for a first run without a download.

The pairs, sentences, questions and uses were written for this project, under its licence. One annotator gave
the scores: a smoke test, no benchmark. The corpus is the docstrings of Python's standard library.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import json
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sentemb.data.documents import Document
from sentemb.data.files import read_file
from sentemb.data.sts import ScoredPairs, Subset, read_scored_pairs

Kind = Literal["module", "class", "function", "method", "data"]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Module, path inside the module (empty for the module itself), kind, documentation.
_Found = tuple[str, str, Kind, str]

_FOLDER = Path(__file__).with_name("bundled")
BUNDLED_PAIRS = "sentemb-pairs"
"""Name of the bundled pairs, as in `train --dev sentemb-pairs`."""
MAX_WORDS = 40
"""Longest first sentence of a docstring in words; longer ones are truncated."""
_ENOUGH = 3  # words; a shorter first sentence takes the next one with it
# Mostly written in C, or public under another name than the file that defines them, so that no source file
# lists their names. Importing them neither prints nor opens anything.
_IMPORTED = (
    "builtins array asyncio atexit binascii bisect bz2 cmath codecs collections collections.abc "
    "concurrent.futures contextvars csv datetime decimal enum errno fractions functools gc hashlib heapq io "
    "itertools json logging lzma math mmap multiprocessing operator os os.path pathlib pickle queue random "
    "re select shutil signal socket sqlite3 statistics string struct subprocess sys tempfile threading time "
    "tracemalloc types unicodedata unittest uuid weakref zlib zoneinfo"
).split()
# Easter eggs, programs, tests, tables, the files behind `os.path`, windows and turtles, which some
# installations lack, and what Python 3.12 and 3.13 dropped (PEP 594).
_LEFT_OUT = frozenset(
    "antigravity this idlelib turtledemo ensurepip encodings pydoc_data posixpath ntpath genericpath test "
    "tests tkinter turtle asynchat asyncore distutils imp lib2to3 smtpd aifc audioop cgi cgitb chunk crypt "
    "imghdr mailcap msilib nis nntplib ossaudiodev pipes sndhdr spwd sunau telnetlib uu xdrlib".split()
)


class Question(NamedTuple):
    """A question about the standard library, with the ids of `stdlib_documents` that answer it."""

    text: str
    answers: tuple[str, ...]
    split: Literal["dev", "test"]  # the latter were not looked at while documents and weights were chosen


def bundled_pairs() -> ScoredPairs:
    """Read sentence pairs of thirteen domains, graded from 0 (unrelated) to 5 (the same meaning)."""
    pairs = read_scored_pairs(bundled_pairs_file(), name=BUNDLED_PAIRS, split="test")
    subsets: list[Subset] = []
    for domain, members in groupby(row.values["domain"] for row in read_file(bundled_pairs_file())):
        start = subsets[-1].stop if subsets else 0
        subsets.append(Subset(domain, start, start + len(list(members))))
    return replace(pairs, subsets=tuple(subsets), source="sentemb/data/bundled/pairs.tsv")


def bundled_sentences() -> list[str]:
    """Read unlabelled sentences of the same domains, for self-guided and unsupervised training."""
    return [row.values["text"] for row in read_file(bundled_sentences_file())]


def bundled_questions() -> list[Question]:
    """Read plain questions about the standard library, written before anything was searched for."""
    rows = map(json.loads, (_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    return [Question(row["question"], tuple(row["answers"]), row["split"]) for row in rows]


def bundled_uses() -> dict[str, str]:
    """Read what people want when they use names of the standard library, by qualified name."""
    return {row.values["name"]: row.values["uses"] for row in read_file(_FOLDER / "uses.tsv")}


def bundled_pairs_file() -> Path:
    """Return the file of the pairs, such as for the dev set of a training."""
    return _FOLDER / "pairs.tsv"


def bundled_sentences_file() -> Path:
    """Return the file of the sentences, such as for the data of a training."""
    return _FOLDER / "sentences.txt"


def stdlib_documents() -> Iterator[Document]:
    """Yield about five thousand documents from the docstrings of the running Python's standard library.

    A document is a qualified name in words, the first sentence of its docstring, that of its module, and what
    people use it for. Names without a docstring that people use, such as `csv.DictReader`, come last. Modules
    written in C, and those of such names, are imported; all others are only parsed.
    """
    identifiers: set[str] = set()
    texts: set[tuple[str, str, str]] = set()
    about: dict[str, str] = {}
    uses = bundled_uses()

    def document(identifier: str, text: str, module: str, kind: Kind) -> Document:
        of_module = about.get(module, "") if identifier.startswith(f"{module}.") else ""
        *before, last = filter(None, (text, of_module, uses.get(identifier, "")))
        whole = " ".join([*(one if one.endswith(".") else f"{one}." for one in before), last])
        return Document(f"{name_in_words(identifier)}: {whole}", identifier, {"module": module, "kind": kind})

    for module, path, kind, documentation in _everything():
        text = clean_documentation(documentation)
        identifier = path if module == "builtins" and path else ".".join(filter(None, (module, path)))
        # A class inherits or repeats the documentation of another's method under the same name.
        repeated = (module.partition(".")[0], identifier.rpartition(".")[2], text)
        if len(text.split()) < _ENOUGH or identifier in identifiers or repeated in texts:
            continue
        identifiers.add(identifier)
        texts.add(repeated)
        if not path:
            about[module] = text
        yield document(identifier, text, module, kind)
    for identifier in sorted(uses.keys() - identifiers):
        if found := _resolve(identifier):
            yield document(identifier, "", *found)


def _resolve(identifier: str) -> tuple[str, Kind] | None:
    """Return the module of a public name and what it is; None if this Python does not have the name."""
    parts = identifier.split(".")
    for cut in range(len(parts) - 1, -1, -1):
        with contextlib.suppress(ImportError, AttributeError):
            module, path = ".".join(parts[:cut]) or "builtins", parts[cut:]
            value = functools.reduce(getattr, path, importlib.import_module(module))
            kind = _kind(".".join(path), is_class=inspect.isclass(value))
            return module, kind if callable(value) or kind == "method" else "data"
    return None


def name_in_words(name: str) -> str:
    """Split a qualified name into the words that it is made of."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.split(r"[._\s]+", apart)).strip()


def clean_documentation(documentation: str) -> str:
    """Return the first sentence of a docstring as running text; the calls if it has nothing else."""
    opening, *paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(documentation))
    # Functions written in C may open with a line for each way to call them, continued on indented lines.
    calls: list[str] = []
    lines = opening.splitlines()
    while lines and (re.match(r"[\w.]+\(.*\)", lines[0]) or (calls and lines[0].startswith(" "))):
        line = lines.pop(0)
        if re.match(r"[\w.]+\(.*\)", line):
            calls.append(line.strip())
        else:
            calls[-1] += f" {line.strip()}"
    prose = " ".join(paragraph.partition(">>>")[0] for paragraph in ["\n".join(lines), *paragraphs])
    prose = re.sub(r":[a-z:]+:`~?([^`]+)`", r"\1", prose)  # roles of reStructuredText
    prose = " ".join(re.sub(r"`+|[-=~^#]{3,}", "", prose).split())
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?:]) (?=[A-Z(])", prose or "; ".join(calls)):
        kept += sentence.split()[:MAX_WORDS]
        if len(kept) > _ENOUGH:
            break
    return " ".join(kept)


def _everything() -> Iterator[_Found]:
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # Python can be built without some of them
            yield from _of_object(name, "", importlib.import_module(name))
    library = Path(sysconfig.get_path("stdlib"))
    for top in sorted(sys.stdlib_module_names):
        single = library / f"{top}.py"
        for file in [single] if single.is_file() else sorted((library / top).rglob("*.py")):
            parts = file.relative_to(library).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(part.startswith("_") or part in _LEFT_OUT for part in parts):
                yield from _of_source(".".join(parts), "", ast.parse(file.read_bytes(), filename=str(file)))


def _kind(path: str, *, is_class: bool) -> Kind:
    if not path:
        return "module"
    return "class" if is_class else "method" if "." in path else "function"


def _of_object(module: str, path: str, value: Any) -> Iterator[_Found]:
    documentation = getattr(value, "__doc__", None)
    if isinstance(documentation, str):
        yield module, path, _kind(path, is_class=inspect.isclass(value)), documentation
    if not path:
        for name, member in _offered(value):
            yield from _of_object(module, name, member)
    elif inspect.isclass(value):
        for name, member in sorted(vars(value).items()):
            member = getattr(member, "__func__", member)  # class and static methods
            if not name.startswith("_") and (inspect.isroutine(member) or inspect.isdatadescriptor(member)):
                yield from _of_object(module, f"{path}.{name}", member)


def _offered(module: Any) -> list[tuple[str, Any]]:
    """Return the public classes and functions of a module that are Python's own, not those of a notebook."""
    members = []
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name, None)
        origin = getattr(value, "__module__", None)
        is_own = origin is None or origin.partition(".")[0] in sys.stdlib_module_names
        if not name.startswith("_") and is_own and (inspect.isclass(value) or inspect.isroutine(value)):
            members.append((name, value))
    # Functions first: `random.choice` is kept rather than the method of a class that it stands for; and the
    # methods of `str` rather than those of `bytes`.
    return sorted(members, key=lambda one: (inspect.isclass(one[1]), one[1] is not str, one[0]))


def _of_source(module: str, path: str, node: ast.Module | _Definition) -> Iterator[_Found]:
    documentation = ast.get_docstring(node, clean=False)
    if documentation:
        yield module, path, _kind(path, is_class=isinstance(node, ast.ClassDef)), documentation
    if isinstance(node, (ast.Module, ast.ClassDef)):
        for inner in _definitions(node.body):
            if not inner.name.startswith("_"):
                yield from _of_source(module, f"{path}.{inner.name}".lstrip("."), inner)


def _definitions(statements: list[ast.stmt]) -> Iterator[_Definition]:
    for statement in statements:
        if isinstance(statement, _Definition):
            yield statement
        elif isinstance(statement, ast.If):
            yield from _definitions(statement.body + statement.orelse)
        elif isinstance(statement, ast.Try):
            handlers = [inner for handler in statement.handlers for inner in handler.body]
            yield from _definitions(statement.body + handlers + statement.orelse)
