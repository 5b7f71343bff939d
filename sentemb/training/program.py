"""What programs with a command line of their own share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from sentemb.errors import InputError
from sentemb.training.outcome import Interrupted

Result = TypeVar("Result")


def run_with_options(
    parser: argparse.ArgumentParser, action: Callable[[argparse.Namespace], Result]
) -> Result:
    """Read the command line and run; a user error is one line and exit code 2, Ctrl-C one line and 130."""
    options = parser.parse_args()
    try:
        return action(options)
    except Interrupted as interruption:
        parser.exit(128 + interruption.number, f"{interruption.folder}: {interruption}\n")
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
