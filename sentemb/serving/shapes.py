"""Values that several routes take."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator

MOST_INPUTS = 2048
"""Texts, documents or ids of one request, as many as OpenAI's own server takes."""


def _as_integer(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is the integer 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


AS_INTEGER = BeforeValidator(_as_integer)
"""Makes an integer of 3.0; it comes last, so that the schema has the bounds before it."""
