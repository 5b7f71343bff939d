"""Requests of a limited size, and the wait that a busy server asks for; for all clients of servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx

Item = TypeVar("Item")


def in_parts(
    items: Iterable[Item],
    size: Callable[[Item], int] = lambda item: 1,
    *,
    most: int = 2048,
    limit: int = 4_000_000,
) -> Iterator[list[Item]]:
    """Split items into lists that fit a request: `most` items whose sizes add up to `limit`.

    The defaults are those of `sentemb serve`: as escaped UTF-8, so many characters fit its 32 MiB.
    """
    part: list[Item] = []
    total = 0
    for item in items:
        if part and (len(part) == most or total + size(item) > limit):
            yield part
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield part


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of Retry-After, which is a number or a date; None without one."""
    stated = response.headers.get("retry-after", "")
    if stated.isdecimal():
        return float(stated)
    try:
        return max(0.0, (parsedate_to_datetime(stated) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
