"""The English of docstrings, comments, messages and documents: patterns that read like a translation."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs", "eval", "training")
PATTERNS = {
    "negate the verb, not the noun": r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)",
    "differ significantly": r"\b(?:told|tells?|telling)(?: \w+)? apart\b",
    "next to, compared with": r"\bbeside\b",
    "resumes, again, from scratch": r"\b(?:goes|go|went|going) on\b|\banew\b",
    "fix": r"\bmend(?:s|ed|ing)?\b",
    "all, up to k": r"\b(?:so|as) many as there are\b|\bso many as\b",
    "skipped": r"\bpassed over\b|\b(?:is|are|was|were) left out\b",
    "current, previous": r"\bof (?:now|then)\b",
    "keyword": r"\bby words\b",
    "pretrained base": r"\braw bases?\b",
    "is logged once, is reported": r"\b(?:is|are|was|were) (?:said once|told)\b",
    "relevant documents, queries with qrels": r"\bright answers?\b|\bjudged queries\b",
    "regardless of": r"\bwhoever\b",
}
DOCSTRING = re.compile(r"(?:What|How|Whether|Where|Of)\b")
# Text in which a pattern is right, by file.
ALLOWED: dict[str, tuple[str, ...]] = {"tests/serving/test_page.py": (f"#{'bes'}ide",)}


def python_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield comments and string literals with their line."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def markdown_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield paragraphs outside code blocks with their first line."""
    text = re.sub(
        r"^( *)```.*?^\1```",
        lambda block: re.sub(r"[^\n]", "", block[0]),
        path.read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    for part in re.finditer(r"(?:[^\n]+\n?)+", text):
        yield text.count("\n", 0, part.start()) + 1, part[0]


def findings(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    is_python = path.suffix == ".py"
    for line, text in python_prose(path) if is_python else markdown_prose(path):
        plain = " ".join(text.split())
        for allowed in ALLOWED.get(name, ()):
            plain = plain.replace(allowed, "")
        for better, pattern in PATTERNS.items():
            for found in re.finditer(pattern, plain, re.IGNORECASE):
                around = plain[max(0, found.start() - 30) : found.end() + 30]
                yield f"{name}:{line}: …{around}…: write {better}"
    for line, text in docstrings(path) if is_python else ():
        if DOCSTRING.match(text):
            yield f"{name}:{line}: {text.splitlines()[0]}: start with an imperative verb"


def places() -> Iterator[str]:
    """Yield rooms, files at the top of the package and of the tests, and documents."""
    for folder in ("sentemb", "tests"):
        for path in sorted((ROOT / folder).iterdir()):
            if path.suffix == ".py" or (path / "__init__.py").exists():
                yield path.relative_to(ROOT).as_posix()
    yield from DOCUMENTS


@pytest.mark.parametrize("place", [*places()])
def test_prose_is_english_of_the_field(place: str) -> None:
    path = ROOT / place
    paths = sorted([*path.rglob("*.py"), *path.rglob("*.md")]) if path.is_dir() else [path]
    assert [finding for one in paths for finding in findings(one)] == []


def test_the_guard_finds_each_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    tell, beside, record = f"{'told'} apart", f"{'bes'}ide", f"is\n{'no'} record"
    (tmp_path / "a.py").write_text(
        f'"""How to tell."""\n# {tell}\ndef f() -> None:\n    "Whether {beside}."\n'
    )
    (tmp_path / "b.md").write_text(f"It {record}, there is no such file.\n\n```\n{beside}\n```\n")
    assert len([*findings(tmp_path / "a.py")]) == 4
    assert len([*findings(tmp_path / "b.md")]) == 1
