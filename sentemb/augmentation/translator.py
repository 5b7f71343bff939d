"""What back-translation needs of a translator, whatever does the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Progress = Callable[[str, int, int], None]
"""Takes the translator's name, and how many of how many texts are translated."""


class Translator(Protocol):
    """From texts to their translations.

    Example:
        >>> class Shouting:
        ...     name = "shouting"
        ...     fingerprint = "shouting 1"
        ...
        ...     def __call__(self, texts, *, draw=0):
        ...         return [text.upper() for text in texts]
        ...
        ...     def describe(self):
        ...         return {"name": self.name}
        >>> Shouting()(["a cat"])
        ['A CAT']
    """

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """A name for what it computes: another one wherever the translation of some text may differ."""
        ...

    def __call__(self, texts: Sequence[str], *, draw: int = 0) -> list[str]:
        """Translate texts."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say for a manifest which translator this is and how it decodes.

        Returns:
            Values that JSON can hold.
        """
        ...
