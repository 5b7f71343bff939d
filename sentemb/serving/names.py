"""What a request names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentemb.serving.problems import Problem


def named(encoders: Mapping[str, Any], name: str, what: str, field: str = "model") -> Any:
    """What a request names.

    Raises:
        Problem: 404, there is none of that name.
    """
    found = encoders.get(name)
    if found is None:
        known = ", ".join(sorted(encoders)) or "none"
        raise Problem(404, f"unknown {what} {name[:100]!r}; this server has: {known}", field=field)
    return found
