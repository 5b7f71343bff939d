"""The process: its socket, its pace, its signals."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sentemb.errors import InputError
from sentemb.serving.app import create_app
from sentemb.serving.guards import LARGEST_HEAD, TOO_LARGE_HEAD
from sentemb.serving.logs import log_to_standard_error
from sentemb.serving.memory import settle_memory
from sentemb.serving.problems import MEDIA_TYPE, Problem
from sentemb.serving.settings import Settings

_KEEP_ALIVE = 75


class PacedProtocol(H11Protocol):
    """HTTP/1.1 that waits for the head of a request no longer than `header_seconds`."""

    header_seconds = 10.0
    _pace: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once there is a request."""
        super().data_received(data)
        idle = self.cycle is None or self.cycle.response_complete
        if not idle:
            self._stop_waiting()
        elif self._pace is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too large a head, with a problem document."""
        too_large = len(self.conn.trailing_data[0]) > LARGEST_HEAD
        detail = TOO_LARGE_HEAD if too_large else msg
        body = bytes(Problem(431 if too_large else 400, detail).response("").body)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        response = h11.Response(status_code=431 if too_large else 400, headers=headers)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        self._pace = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._pace is not None:
            self._pace.cancel()
            self._pace = None

    def _give_up(self) -> None:
        self._pace = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it; requests that were accepted are finished first.

    Args:
        settings: What to serve, and to whom.
        announce: Called with the server's address once it listens.

    Raises:
        InputError: As for `create_app`, or the address cannot be listened on.
    """
    settings = settings.checked()
    settle_memory()
    listening = _listen(settings.host, settings.port)
    with listening:
        app = create_app(settings)
        protocol = type("Protocol", (PacedProtocol,), {"header_seconds": settings.header_seconds})
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(settings.stop_seconds),
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        # What was loaded stays: looking for garbage in it would stop everything for a tenth of a second.
        gc.collect()
        gc.freeze()
        log_to_standard_error()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(f"http://{host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Backlog: connections that arrive while the models load are answered when they are there.
        return socket.create_server((host.strip("[]"), port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}", "choose another --host or --port"
        ) from None
