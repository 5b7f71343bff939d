"""Tables inside a document: what stands between two marks is replaced, the rest is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sentemb._files import write_text
from sentemb.errors import InputError

_BEGIN = re.compile(r"^<!-- report:(?P<name>[a-z]+) -->$", re.MULTILINE)
# From a mark to its end, no other mark between them.
_PART = re.compile(
    r"^(?P<begin><!-- report:(?P<name>[a-z]+) -->\n)(?:(?!<!-- report:).)*?"
    r"^(?P<end><!-- /report:(?P=name) -->)$",
    re.MULTILINE | re.DOTALL,
)


def put_into(path: Path, texts: Mapping[str, str]) -> list[str]:
    """Replace what lies between `<!-- report:NAME -->` and `<!-- /report:NAME -->` in a markdown file."""
    new, names = filled(path, texts)
    write_text(path, new)
    return names


def filled(path: Path, texts: Mapping[str, str]) -> tuple[str, list[str]]:
    """What `put_into` would write."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no such file: {path}", "name a markdown file that has marks") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8") from None
    names = [mark["name"] for mark in _BEGIN.finditer(text)]
    if not names:
        raise InputError(
            f"{path} has no place for a table",
            "write <!-- report:sts --> and <!-- /report:sts --> on own lines",
        )
    for name in names:
        if name not in texts:
            raise InputError(
                f"{path}: there is a place for {name}, of which there are no records",
                f"take the marks out, or name more folders: these give {', '.join(texts) or 'none'}",
            )

    def fill(part: re.Match[str]) -> str:
        return f"{part['begin']}\n{texts[part['name']].strip()}\n\n{part['end']}"

    new, count = _PART.subn(fill, text)
    if count < len(names):
        raise InputError(
            f"{path}: a <!-- report:NAME --> is not closed",
            "write <!-- /report:NAME --> on a line below each",
        )
    return new, names
