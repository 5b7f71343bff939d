"""One row of text with the place it came from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sentemb.errors import InputError


class Record(NamedTuple):
    """One row of a source.

    Attributes:
        location: Where it stands, such as `corpus/a.jsonl:17` (lines and rows count from 1).
        values: Its columns in the order asked for.
    """

    location: str
    values: dict[str, Any]

    def text(self, column: str) -> str:
        """The text in a column.

        Args:
            column: The column.

        Returns:
            The string, which may be empty.

        Raises:
            InputError: There is no such column, or its value is no string.
        """
        value = self._value(column)
        if not isinstance(value, str):
            raise InputError(
                f"{self.location}: column {column!r} holds {_name(value)} where a text is wanted"
            )
        return value

    def number(self, column: str) -> float:
        """The number in a column, also where a text format spells it.

        Args:
            column: The column.

        Returns:
            A finite float.

        Raises:
            InputError: There is no such column, or its value is no finite number.
        """
        value = self._value(column)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"{self.location}: column {column!r} holds {_name(value)} where a number is wanted"
            )
        return number

    def _value(self, column: str) -> Any:
        # Rows of JSON lines, and the files of a folder, may differ in their columns.
        if column not in self.values:
            there = ", ".join(self.values) or "none"
            raise InputError(f"{self.location} has no column {column!r}; its columns are {there}")
        return self.values[column]


def _name(value: Any) -> str:
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
