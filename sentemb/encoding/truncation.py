"""Texts that a model truncates: counted, and reported once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


class TruncatedTexts:
    """The texts that an encoder has truncated; the first ones are reported in a warning."""

    def __init__(self, name: str, room: int) -> None:
        self.name, self.room = name, room
        self.texts: set[int] = set()
        self.reported = False

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, texts: Iterable[str]) -> None:
        """Count texts, each once."""
        self.texts.update(map(hash, texts))
        if self.texts and not self.reported:
            self.reported = True
            if _reports:
                _reports[-1].append(self)  # the number of texts grows until the end of a command
            else:
                logger.warning("%s", _message(len(self), self.room, self.name))


_reports: list[list[TruncatedTexts]] = []  # of the commands that run


@contextmanager
def report_truncation(say: Callable[[str], None]) -> Iterator[None]:
    """Report the number of truncated texts at the end, instead of a warning at the first one."""
    _reports.append([])
    try:
        yield
    finally:
        report_pending(say)
        _reports.pop()


def report_pending(say: Callable[[str], None]) -> None:
    """Report now what `report_truncation` would report at the end: a line for each number of tokens."""
    pending = _reports[-1] if _reports else []
    for room in dict.fromkeys(truncated.room for truncated in pending):
        group = [truncated for truncated in pending if truncated.room == room]
        first, *others = dict.fromkeys(truncated.name for truncated in group)
        more = f" or {len(others)} other model{'s' * (len(others) != 1)}" if others else ""
        texts = set[int]().union(*(truncated.texts for truncated in group))
        say(_message(len(texts), room, f"{first}{more}"))
    pending.clear()


def _message(count: int, room: int, name: str) -> str:
    texts, were = ("1 text is", "was") if count == 1 else (f"{count:,} texts are", "were")
    return (
        f"{texts} longer than the {room:,} tokens of {name} and {were} truncated; "
        "raise the maximum length to encode more, if the model allows it"
    )
