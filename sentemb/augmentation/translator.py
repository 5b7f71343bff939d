"""What back-translation needs of a translator, whatever does the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Progress = Callable[[str, int, int], None]
"""Takes the translator's name, and how many of how many texts are translated."""


class Translator(Protocol):
    """From texts to their translations.

    Attributes:
        name: What messages call it.
        fingerprint: A name for what it computes: another one where some translation may differ.

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
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    def __call__(self, texts: Sequence[str], *, draw: int = 0) -> list[str]: ...  # noqa: D102

    def describe(self) -> dict[str, Any]:
        """Describe for a manifest which translator this is and how it decodes, as JSON values."""
