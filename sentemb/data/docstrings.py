"""The documentation of Python's own standard library as a search corpus that every machine already has."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

Kind = Literal["module", "class", "function", "method"]

MAX_WORDS = 60
"""Longest documentation of a document in words: a sentence encoder is not made for whole pages."""

# Written in C for the most part, or public under another name than the file that defines them, so that no
# source file tells what they offer. Importing them neither prints nor opens anything.
_IMPORTED = (
    "builtins array asyncio binascii bisect bz2 cmath collections collections.abc concurrent.futures "
    "contextvars csv datetime decimal enum errno fractions functools gc hashlib heapq io itertools json "
    "logging lzma math mmap multiprocessing operator os os.path pathlib pickle queue random re select "
    "shutil signal socket sqlite3 statistics string struct subprocess sys tempfile threading time "
    "tracemalloc types unicodedata unittest uuid weakref zlib zoneinfo"
).split()

# Easter eggs, programs, tests, tables, what Python 3.12 dropped, and the files behind `os.path`.
_LEFT_OUT = frozenset(
    "antigravity this idlelib lib2to3 turtledemo ensurepip distutils encodings pydoc_data posixpath ntpath "
    "genericpath test tests".split()
)


class LibraryDocument(NamedTuple):
    """One documentation string, in the form that `SearchIndex.build` takes: `(id, text, metadata)`.

    Attributes:
        id: The qualified name, such as `collections.OrderedDict.move_to_end`; built-ins go without a module.
        text: The name in words, a colon and the beginning of the documentation.
        metadata: `module` and `kind` (`module`, `class`, `function` or `method`).
    """

    id: str
    text: str
    metadata: dict[str, str]


class _Found(NamedTuple):
    module: str
    path: str  # inside the module; empty for the module itself
    kind: Kind
    documentation: str


def stdlib_documents() -> Iterator[LibraryDocument]:
    """Documentation strings of the running Python's standard library, about six thousand.

    Modules written in C, and those that gather what other files define, are imported, from a list of modules
    whose import has no visible effect; all others are parsed without importing them. Where Python comes
    without its source files, only the former are there. Private names and tests are left out; of
    documentation that several places repeat, the first is kept.
    """
    identifiers: set[str] = set()
    texts: set[tuple[str, str]] = set()
    for found in _everything():
        text = clean_documentation(found.documentation)
        name = ".".join(part for part in (found.module, found.path) if part)
        identifier = found.path if found.module == "builtins" and found.path else name
        # A class inherits or repeats the documentation of another's method under the same name.
        repeated = (identifier.rpartition(".")[2], text)
        if len(text.split()) < 3 or identifier in identifiers or repeated in texts:
            continue
        identifiers.add(identifier)
        texts.add(repeated)
        metadata = {"module": found.module, "kind": found.kind}
        yield LibraryDocument(identifier, f"{name_in_words(identifier)}: {text}", metadata)


def name_in_words(name: str) -> str:
    """A qualified name as the words that it is made of."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.split(r"[._\s]+", apart)).strip()


def clean_documentation(documentation: str) -> str:
    """The beginning of a documentation string as running text."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(documentation))
    calls, paragraphs[0] = _split_calls(paragraphs[0])
    prose = " ".join(paragraph.partition(">>>")[0] for paragraph in paragraphs)
    prose = re.sub(r":[a-z:]+:`~?([^`]+)`", r"\1", prose)  # roles of reStructuredText
    prose = " ".join(re.sub(r"`+|[-=~^#]{3,}", "", prose).split())
    if not calls:
        return _whole_sentences(prose)
    opening = "; ".join(calls)
    return _whole_sentences(f"{opening} {prose}" if opening.endswith(".") else f"{opening}. {prose}".strip())


def _split_calls(paragraph: str) -> tuple[list[str], str]:
    # Functions written in C may open with a line for each way to call them, continued on indented lines.
    calls: list[str] = []
    lines = paragraph.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[\w.]+\(.*\)", line):
            calls.append(line.strip())
        elif calls and line.startswith(" "):
            calls[-1] += f" {line.strip()}"
        else:
            return calls, "\n".join(lines[number:])
    return calls, ""


def _whole_sentences(text: str) -> str:
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?:]) (?=[A-Z(])", text):
        words = sentence.split()
        if kept and len(kept) + len(words) > MAX_WORDS:
            break
        kept.extend(words[:MAX_WORDS])
    return " ".join(kept)


def _everything() -> Iterator[_Found]:
    for name in _IMPORTED:
        try:
            module = importlib.import_module(name)
        except ImportError:  # Python can be built without some of them
            continue
        yield from _of_module(name, module)
    for name, file in _source_files():
        yield from _of_source(name, file)


def _of_module(name: str, module: ModuleType) -> Iterator[_Found]:
    if module.__doc__:
        yield _Found(name, "", "module", module.__doc__)
    offered = getattr(module, "__all__", None) or vars(module)
    members = [(member, getattr(module, member, None)) for member in offered if not member.startswith("_")]
    members = [(member, value) for member, value in members if _is_own(value)]
    # Functions first: `random.choice` is kept rather than the method of a class that it stands for.
    for member, value in sorted(members, key=lambda pair: (inspect.isclass(pair[1]), pair[0])):
        yield from _of_object(name, member, value)


def _is_own(value: Any) -> bool:
    # Notebooks and test runners put functions of their own into `builtins` and `sys`.
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return False
    origin = getattr(value, "__module__", None)
    return origin is None or origin.partition(".")[0] in sys.stdlib_module_names


def _of_object(module: str, path: str, value: Any) -> Iterator[_Found]:
    is_class = inspect.isclass(value)
    kind: Kind = "class" if is_class else "method" if "." in path else "function"
    documentation = getattr(value, "__doc__", None)
    if isinstance(documentation, str):
        yield _Found(module, path, kind, documentation)
    if not is_class:
        return
    for member, attribute in sorted(vars(value).items()):
        attribute = getattr(attribute, "__func__", attribute)  # class and static methods
        if not member.startswith("_") and (
            inspect.isroutine(attribute) or inspect.isdatadescriptor(attribute)
        ):
            yield from _of_object(module, f"{path}.{member}", attribute)


def _source_files() -> Iterator[tuple[str, Path]]:
    library = Path(sysconfig.get_path("stdlib"))
    for top in sorted(sys.stdlib_module_names):
        single, package = library / f"{top}.py", library / top
        files = [single] if single.is_file() else sorted(package.rglob("*.py"))
        for file in files:
            parts = file.relative_to(library).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(part.startswith("_") or part in _LEFT_OUT for part in parts):
                yield ".".join(parts), file


def _of_source(name: str, file: Path) -> Iterator[_Found]:
    tree = ast.parse(file.read_bytes(), filename=str(file))
    documentation = ast.get_docstring(tree, clean=False)
    if documentation:
        yield _Found(name, "", "module", documentation)
    yield from _of_statements(name, "", tree.body)


def _of_statements(module: str, path: str, statements: list[ast.stmt]) -> Iterator[_Found]:
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _of_definition(module, path, statement)
        elif isinstance(statement, ast.If):
            yield from _of_statements(module, path, statement.body + statement.orelse)
        elif isinstance(statement, ast.Try):
            handlers = [inner for handler in statement.handlers for inner in handler.body]
            yield from _of_statements(module, path, statement.body + handlers + statement.orelse)


def _of_definition(
    module: str, path: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> Iterator[_Found]:
    if node.name.startswith("_"):
        return
    inner = f"{path}.{node.name}" if path else node.name
    is_class = isinstance(node, ast.ClassDef)
    kind: Kind = "class" if is_class else "method" if path else "function"
    documentation = ast.get_docstring(node, clean=False)
    if documentation:
        yield _Found(module, inner, kind, documentation)
    if is_class:
        yield from _of_statements(module, inner, node.body)
