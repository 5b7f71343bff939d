"""The server's log: one JSON object a line, never a text, a key or a query."""

from __future__ import annotations

import logging
import sys
import time

import orjson

logger = logging.getLogger("sentemb.serving")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def log_to_standard_error(level: int = logging.INFO) -> None:
    """Write the logs of the server and of what serves it as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("sentemb", "uvicorn"):
        named = logging.getLogger(name)
        named.handlers = [handler]
        named.setLevel(level)
        named.propagate = False


def log_request(*, request_id: str, method: str, route: str, status: int, seconds: float) -> None:
    """Log an answered request."""
    fields = {
        "request_id": request_id,
        "method": method,
        "route": route,
        "status": status,
        "milliseconds": round(1000 * seconds, 2),
    }
    logger.info("request", extra={"fields": fields})
