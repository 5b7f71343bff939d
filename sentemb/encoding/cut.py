"""Texts that a model does not read whole: counted, and said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

_waiting: dict[tuple[str, int], CutTexts] | None = None


class CutTexts:
    """The texts of which an encoder has read no more than the beginning.

    A command may load one encoder several times, and says it once.

    Attributes:
        said: Whether the user knows.
    """

    def __init__(self, name: str, room: int) -> None:
        self._name = name
        self._room = room
        self._texts: set[int] = set()
        self.said = False

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, texts: Iterable[str]) -> None:
        """Count texts, each once; the first ones are said, or all of them when the command ends."""
        new = set(map(hash, texts))
        self._texts |= new
        if self.said or not self._texts:
            return
        if _waiting is not None:
            _waiting.setdefault((self._name, self._room), self)._texts |= new
        else:
            self.said = True
            logger.warning("%s", str(self))

    def __str__(self) -> str:
        return _told(len(self), self._room, self._name)


def _told(count: int, room: int, name: str) -> str:
    one = count == 1
    return (
        f"{count:,} text{'' if one else 's'} {'is' if one else 'are'} longer than the {room:,} "
        f"tokens of {name} and {'was' if one else 'were'} truncated; "
        "raise the maximum length to encode more, if the model allows it"
    )


@contextmanager
def said_at_end(say: Callable[[str], None]) -> Iterator[None]:
    """Say at the end how many texts were cut, in place of a warning at the first."""
    global _waiting
    before, _waiting = _waiting, {}
    try:
        yield
    finally:
        say_waiting(say)
        _waiting = before


def say_waiting(say: Callable[[str], None]) -> None:
    """Say what waits to be said: a line for all encoders that read as many tokens."""
    groups: dict[int, list[CutTexts]] = {}
    for (_, room), cut in (_waiting or {}).items():
        groups.setdefault(room, []).append(cut)
    for room, cuts in groups.items():
        texts = set[int]().union(*(cut._texts for cut in cuts))
        others = len(cuts) - 1
        more = f" or {others} other model{'' if others == 1 else 's'}" if others else ""
        say(_told(len(texts), room, f"{cuts[0]._name}{more}"))
        for cut in cuts:
            cut.said = True
    if _waiting is not None:
        _waiting.clear()
