"""Tables inside a document: what stands between two marks is made anew, the rest is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sentemb._files import write_text
from sentemb.errors import InputError

_BEGIN = re.compile(r"^<!-- report:(?P<name>[a-z]+) -->$", re.MULTILINE)


def put_into(path: Path, texts: Mapping[str, str]) -> list[str]:
    """Replace the parts of a markdown file that lie between `<!-- report:NAME -->` and `<!-- /report:NAME -->`.

    Args:
        path: The file.
        texts: A part's name to its markdown.

    Returns:
        The names of the parts that the file has.

    Raises:
        InputError: The file is absent or no text, has no mark, one that is not closed, or one of no such part.
    """
    new, names = filled(path, texts)
    write_text(path, new)
    return names


def filled(path: Path, texts: Mapping[str, str]) -> tuple[str, list[str]]:
    """What `put_into` would write.

    Args:
        path: The file.
        texts: A part's name to its markdown.

    Returns:
        The file's new text, and the names of its parts.

    Raises:
        InputError: As for `put_into`.
    """
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
        begin, end = f"<!-- report:{name} -->\n", f"<!-- /report:{name} -->"
        if name not in texts:
            raise InputError(
                f"{path}: {begin.strip()}, but the records give no such part",
                f"they give {', '.join(texts) or 'none'}",
            )
        head, _, rest = text.partition(begin)
        between, mark, tail = rest.partition(end)
        if not mark or _BEGIN.search(between):
            raise InputError(f"{path}: {begin.strip()} is not closed", f"write {end} below it")
        text = f"{head}{begin}\n{texts[name].strip()}\n\n{end}{tail}"
    return text, names
