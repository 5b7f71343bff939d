"""The one exception for user errors."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator


class InputError(ValueError):
    """A user error: a file, column, option or model that cannot be used.

    The command line prints it as one line and exits with code 2. In Python it is a `ValueError`.

    Args:
        message: What is wrong and where, naming the file, line, column or option. No full stop at the end.
        hint: The next step, as an imperative clause without a full stop.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint


class ReportedError(InputError):
    """An InputError on another process than the first, which reports it for all."""


@contextlib.contextmanager
def naming(what: object) -> Iterator[None]:
    """Prefix user errors with the file, data set or option that they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error.message}", error.hint) from None


def unknown(what: str, name: object, known: Collection[object]) -> InputError:
    """Return the error for an unknown name, with the closest known one."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(names)}"
    return InputError(f"unknown {what}: {name}", hint)
