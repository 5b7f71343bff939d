"""The process of a server: its socket, its log, its signals."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable

import orjson
import uvicorn

from sentemb.errors import InputError
from sentemb.serving.app import MAX_HEADER, create_app
from sentemb.serving.settings import Settings

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept."""
# oneDNN and torch keep a compiled product for every shape of a layer and number of rows, 1,024 by default, of
# up to 0.5 MiB each. A model has four shapes, and about 30 numbers of rows.
_CACHED_PRODUCTS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "8"}


def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until a signal stops the server; accepted requests are finished first."""
    settings = settings.checked()
    limit_memory()
    with _listen(settings.host, settings.port) as listening:
        config = uvicorn.Config(
            create_app(settings),
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(settings.stop_seconds),
            h11_max_incomplete_event_size=MAX_HEADER,
        )
        # The models stay: searching them for garbage would stop everything for a tenth of a second.
        gc.collect()
        gc.freeze()
        log_to_standard_error()
        announce(address_of(settings.host, listening.getsockname()[1]))
        uvicorn.Server(config).run(sockets=[listening])


def limit_memory() -> None:
    """Limit what the libraries cache; to be called before anything is computed."""
    for name, limit in _CACHED_PRODUCTS.items():
        os.environ.setdefault(name, limit)


def address_of(host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"


def log_to_standard_error() -> None:
    """Write the logs of sentemb and uvicorn as lines of JSON; they never contain a text, a key or a query."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name in ("sentemb", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Connections that arrive while the models load wait in the backlog.
        return socket.create_server((host.strip("[]"), port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}", "choose another --host or --port"
        ) from None
