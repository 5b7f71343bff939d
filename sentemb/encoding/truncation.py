"""Texts that a model does not read to the end: counted, and reported once."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


class TruncatedTexts:
    """The texts that an encoder has truncated; the first ones are reported in a warning.

    Attributes:
        said: Whether they have been reported.
    """

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = room
        self.texts: set[int] = set()
        self.said = False

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, texts: Iterable[str]) -> None:
        """Count texts, each once."""
        self.texts.update(map(hash, texts))
        if self.texts and not self.said:
            self.said = True
            logger.warning("%s", str(self), extra={"truncated": self})

    def __str__(self) -> str:
        return _message(len(self), self.room, self.name)


class _Pending(logging.Filter):
    """Holds the warnings back, since the number of texts grows until the end of a command."""

    def __init__(self) -> None:
        super().__init__()
        self._truncated: list[TruncatedTexts] = []

    def filter(self, record: logging.LogRecord) -> bool:
        self._truncated.append(record.truncated)  # type: ignore[attr-defined]
        return False

    def report(self, say: Callable[[str], None]) -> None:
        """Report all of them, in one line for the models that read equally many tokens."""
        of_room: defaultdict[int, list[TruncatedTexts]] = defaultdict(list)
        for truncated in self._truncated:
            of_room[truncated.room].append(truncated)
        self._truncated.clear()
        for room, group in of_room.items():
            names = list(dict.fromkeys(truncated.name for truncated in group))
            others = len(names) - 1
            more = f" or {others} other model{'' if others == 1 else 's'}" if others else ""
            texts = set[int]().union(*(truncated.texts for truncated in group))
            say(_message(len(texts), room, f"{names[0]}{more}"))


@contextmanager
def report_truncation(say: Callable[[str], None]) -> Iterator[None]:
    """Report the number of truncated texts at the end, instead of a warning at the first one."""
    pending = _Pending()
    logger.addFilter(pending)
    try:
        yield
    finally:
        logger.removeFilter(pending)
        pending.report(say)


def report_pending(say: Callable[[str], None]) -> None:
    """Report now what `report_truncation` would report at the end."""
    for pending in logger.filters:
        if isinstance(pending, _Pending):
            pending.report(say)


def _message(count: int, room: int, name: str) -> str:
    texts = "1 text is" if count == 1 else f"{count:,} texts are"
    return (
        f"{texts} longer than the {room:,} tokens of {name} and {'was' if count == 1 else 'were'} truncated; "
        "raise the maximum length to encode more, if the model allows it"
    )
