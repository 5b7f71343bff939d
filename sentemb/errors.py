"""The one exception for user errors."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator


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


class ReportedError(InputError):
    """The same on a process beside the first, which reports it for all."""


@contextlib.contextmanager
def naming(what: object) -> Iterator[None]:
    """Name the file, set or option that an error of the user is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error.message}", error.hint) from None


def unknown(what: str, name: object, known: Collection[object]) -> InputError:
    """The error for a name that does not exist, with the closest one that does."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(names)}"
    return InputError(f"unknown {what}: {name}", hint)
