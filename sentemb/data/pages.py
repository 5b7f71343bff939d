"""Pages of documentation: a file of Markdown or reStructuredText is one document with a title."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

_RULE = re.compile(r"([=\-~^*#\"'+:.])\1{2,}\s*")
_HASHES = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")


def parse_page(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a page as a row of title and text; the title is empty where the page begins with no heading."""
    held = [line for _, line in lines]
    first = next((number for number, line in enumerate(held) if line.strip()), None)
    if first is None:
        return
    title, rest = _heading(held, first)
    yield first + 1, {"title": title, "text": "\n".join(held[rest:]).strip()}


def _heading(lines: list[str], first: int) -> tuple[str, int]:
    """The heading that a page begins with, and where the rest begins."""
    if marked := _HASHES.fullmatch(lines[first]):
        return marked[1], first + 1
    if _RULE.fullmatch(lines[first]):  # reStructuredText also has a rule above a heading
        first += 1
    if first + 1 < len(lines) and lines[first].strip() and _RULE.fullmatch(lines[first + 1]):
        return lines[first].strip(), first + 2
    return "", first
