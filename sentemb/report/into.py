"""Tables inside a document: text between two marks is replaced, everything else is unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentemb._files import write_text
from sentemb.errors import InputError

_BEGIN = re.compile(r"^<!-- report:(?P<name>[a-z]+) -->$", re.MULTILINE)
# From a mark to its end, without another mark between them.
_PART = re.compile(
    r"^(?P<begin><!-- report:(?P<name>[a-z]+) -->\n)(?:(?!<!-- report:).)*?"
    r"^(?P<end><!-- /report:(?P=name) -->)$",
    re.MULTILINE | re.DOTALL,
)


def put_into(paths: Sequence[Path], texts: Mapping[str, str]) -> dict[Path, list[str]]:
    """Replace the text between `<!-- report:NAME -->` and `<!-- /report:NAME -->` in all files or in none.

    Return the names of the places in each file.
    """
    new = {path: filled(path, texts) for path in paths}
    for path, (text, _) in new.items():
        write_text(path, text)
    return {path: names for path, (_, names) in new.items()}


def read_marked(path: Path) -> tuple[str, list[str]]:
    """Read a file and the names of its places for tables."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"no such file: {path}", "use a Markdown file that contains report marks") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "use a Markdown file") from None
    names = [mark["name"] for mark in _BEGIN.finditer(text)]
    if not names:
        hint = "write <!-- report:sts --> and <!-- /report:sts --> on separate lines"
        raise InputError(f"{path} does not contain a mark for a table", hint)
    if len(_PART.findall(text)) < len(names):
        hint = "write <!-- /report:NAME --> on a line below each"
        raise InputError(f"{path}: a <!-- report:NAME --> is not closed", hint)
    return text, names


def filled(path: Path, texts: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the new text of a file, and the names of its places."""
    text, names = read_marked(path)
    for name in names:
        if name not in texts:
            raise InputError(
                f"{path} contains a mark for {name}, but there are no records for it",
                f"remove the mark, or list more folders; the records provide {', '.join(texts) or 'none'}",
            )
    return _PART.sub(
        lambda part: f"{part['begin']}\n{texts[part['name']].strip()}\n\n{part['end']}", text
    ), names
