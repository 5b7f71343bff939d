r"""Contents that the site makes while it is built: formulas, defaults of recipes, and results.

- `$$ … $$` and `\( … \)` become MathML, which browsers draw without a script.
- `<!-- defaults: RECIPE -->` becomes the recipe's defaults with their sources.
- `<!-- reference: MODULE -->` becomes the documentation of every name that a room exports.
- `<!-- report: NAME -->` becomes a section of the report on `eval/results`.
- `<!-- include: PATH -->` becomes a file of the repository, such as a table made from records.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\\\((.+?)\\\)")
_PLACE = "formula-{}-of-this-page"
_DEFAULTS = re.compile(r"<!-- defaults: (?P<recipe>[\w-]+) -->")
_REFERENCE = re.compile(r"<!-- reference: (?P<module>[\w.]+) -->")
_REPORT = re.compile(r"<!-- report: (?P<name>[a-z]+) -->")
_EXPLAIN = {"coming-from", "faq", "glossary", "machines", "models", "troubleshooting"}
_ROW, _SKIPPED = r'^<span class="go">\|.*\n', r'^<span class="go">…</span>\n'
_PRINTED_TABLE = re.compile(f"(?:{_ROW}(?:{_SKIPPED}(?={_ROW}))?)+", re.MULTILINE)
_INCLUDE = re.compile(r"<!-- include: (?P<path>[\w./-]+) -->")


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fill in what a page asks for; formulas wait, since markdown takes them for blocks of HTML."""
    page.meta.setdefault("search", {"boost": _boost(page.file.src_uri)})
    markdown = _REFERENCE.sub(lambda found: _reference(found["module"]), markdown)
    markdown = _REPORT.sub(lambda found: _section(found["name"]), markdown)
    markdown = _INCLUDE.sub(lambda found: _included(ROOT / found["path"]), markdown)
    markdown = _DEFAULTS.sub(lambda found: _defaults(found["recipe"]), markdown)
    formulas: list[str] = page.meta.setdefault("formulas", [])

    def keep(found: re.Match[str], display: str) -> str:
        formula = latex2mathml.converter.convert(" ".join(found[1].split()), display=display)
        # A formula on its own line has a box of its own, which scrolls where the page is narrow.
        formulas.append(f'<span class="formula">{formula}</span>' if display == "block" else formula)
        return _PLACE.format(len(formulas) - 1)

    markdown = _DISPLAY.sub(lambda found: keep(found, "block"), markdown)
    return _INLINE.sub(lambda found: keep(found, "inline"), markdown)


def _boost(page: str) -> float:
    """Return the weight of a page in a search: tasks first, then explanations, then reference and results."""
    folder, _, name = page.rpartition("/")
    if folder == "guides":
        return 1 if name.removesuffix(".md") in _EXPLAIN or "how-it-works" in name else 4
    return {"reference": 0.2, "results": 0.2}.get(folder, 1)


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Put the formulas into their places, and each table that a command prints into a box that scrolls."""
    for number, formula in enumerate(page.meta.get("formulas", [])):
        html = html.replace(_PLACE.format(number), formula)
    return _PRINTED_TABLE.sub(lambda found: f'<span class="printed-table">{found[0]}</span>', html)


def _defaults(recipe: str) -> str:
    from sentemb.training import get_recipe

    lines = ["| setting | default | source |", "|---|---|---|"]
    for name, default in get_recipe(recipe).sources("paper").items():
        lines.append(f"| `{name}` | {_written(default.value)} | {default.source} |")
    return "\n".join(lines)


def _written(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _reference(module: str) -> str:
    """Everything that a room exports; of the package itself the names alone, which the rooms document."""
    found = import_module(module)
    names = [name for name in found.__all__ if not name.startswith("_")]
    if "." not in module:
        listed = "\n".join(f"- `{name}`" for name in names)
        return f"{found.__doc__}\n\n{listed}"
    return "\n\n".join([found.__doc__ or "", *(f"::: {module}.{name}" for name in names)])


@cache
def _sections() -> dict[str, str]:
    """The sections of a report on the committed records."""
    from sentemb.report.build import build_report

    built = build_report([ROOT / "eval" / "results"], baselines=["bert-mini-mean", "all-MiniLM-L6-v2"])
    return {section.name: section.markdown() for section in built.sections}


def _section(name: str) -> str:
    return _sections()[name]


def _included(path: Path) -> str:
    """A markdown file below its title, its headings one level down."""
    text = re.sub(r"^# .*\n", "", path.read_text(encoding="utf-8"), count=1)
    text = re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)
    # Files next to it are in the repository, not on the site.
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)
