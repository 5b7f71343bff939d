"""Answers as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any

import orjson
from fastapi import Response

_AT_ONCE = 64


def json_answer(content: Any) -> Response:
    """An answer; float32 arrays keep their bits, since every number is written with the digits it needs."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


async def json_list(items: Iterable[Any]) -> orjson.Fragment:
    """A list as a part of an answer; between some items and the next ones other requests have their turn."""
    left, parts = iter(items), []
    while some := list(islice(left, _AT_ONCE)):
        parts.append(orjson.dumps(some, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
        await asyncio.sleep(0)
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")
