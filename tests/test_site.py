"""The site's hooks: what may be wider than a phone has a box of its own."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("latex2mathml")
DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rows_of_a_printed_table_stay_on_their_lines(hooks: ModuleType) -> None:
    rows = '<span class="go">| place | system |</span>\n<span class="go">|---|---|</span>\n'
    page = SimpleNamespace(meta={})
    html = hooks.on_page_content(f'<code><span class="go">a line</span>\n{rows}\n</code>', page=page)
    assert f'a line</span>\n<span class="printed-table">{rows}</span>\n' in html
    assert re.search(
        r"\.printed-table \{[^}]*overflow-x: auto", (DOCS / "stylesheets" / "code.css").read_text()
    )


def test_a_formula_on_its_own_line_scrolls_in_its_box_and_one_in_a_sentence_does_not(
    hooks: ModuleType,
) -> None:
    page = SimpleNamespace(meta={}, file=SimpleNamespace(src_uri="objectives/simcse.md"))
    text = hooks.on_page_markdown("$$ a + b $$\n\nwhere \\(a\\) is", page=page)
    html = hooks.on_page_content(text, page=page)
    assert len(re.findall(r'<span class="formula"><math[^>]* display="block">', html)) == 1
    assert len(re.findall(r'<math[^>]* display="inline">', html)) == 1
    assert html.count('class="formula"') == 1
    assert re.search(r"\.formula \{[^}]*overflow-x: auto", (DOCS / "stylesheets" / "extra.css").read_text())
    assert "stylesheets/extra.css" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
