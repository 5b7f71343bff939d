"""The one exception for mistakes that the user can mend."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used: a file, a column, an option, a model.

    The command line prints it as one line and leaves with exit code 2. From Python it is a `ValueError`.

    Args:
        message: What is wrong and where, naming the file, line, column or option. No full stop at the end.
        hint: The next step, as an imperative clause without a full stop.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint
