"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Response


def json_answer(content: Any) -> Response:
    """An answer; float32 arrays keep their bits, since every number is written with the digits it needs."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
