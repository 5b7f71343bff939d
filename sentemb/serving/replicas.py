"""Replicas of a server's models on a Ray cluster, behind one address; nothing else imports Ray Serve."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from ray import serve as ray_serve

from sentemb.encoding.cluster import connected
from sentemb.encoding.resolve import check_address
from sentemb.errors import InputError
from sentemb.serving.app import create_app
from sentemb.serving.logs import log_to_standard_error
from sentemb.serving.settings import Settings

_NAME = "sentemb"
_KEEP_ALIVE = 75


@contextlib.contextmanager
def served(settings: Settings, *, address: str, replicas: int) -> Iterator[str]:
    """Serve models by several replicas, each the application that `create_app` makes, with its batcher.

    Where the settings' host is this machine's own, the head node listens there alone; else every node with a
    replica listens. Every replica asks for keys as one server does.

    Args:
        settings: What to serve, and to whom; `workers` are the model threads of each replica, one by default.
        address: Of the cluster, as for `connected`.
        replicas: How many.

    Yields:
        The server's address.

    Raises:
        InputError: The settings do not fit together or to replicas, the cluster cannot be joined or serves
            something already, or a model cannot be loaded there.
    """
    settings = _checked(settings)
    threads = settings.workers or 1
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with connected(address, cpus=replicas * threads):
        if ray_serve.status().proxies:
            # Its proxies would keep their own address, which may let in whom the settings keep out.
            raise InputError(
                f"Ray Serve is already running on the cluster {address}",
                "stop it with `serve shutdown`, or choose another cluster",
            )
        try:
            ray_serve.start(
                proxy_location="HeadOnly" if settings.loopback else "EveryNode",
                http_options={
                    "host": settings.host.strip("[]"),
                    "port": settings.port,
                    "keep_alive_timeout_s": _KEEP_ALIVE,
                },
            )
            ray_serve.run(
                _application(replace(settings, workers=threads), replicas), name=_NAME, route_prefix="/"
            )
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            yield f"http://{host}:{settings.port}"
        except RuntimeError as error:
            raise InputError(
                f"the replicas failed to start: {_reason(error)}", "see the logs of the Ray cluster"
            ) from None
        finally:
            ray_serve.shutdown()


def serve_replicas(
    settings: Settings, *, address: str, replicas: int, announce: Callable[[str], None]
) -> None:
    """Serve as `served` does until a signal ends it; see `sentemb.serving.server.serve`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt, also while it begins
    with (
        contextlib.suppress(KeyboardInterrupt),
        served(settings, address=address, replicas=replicas) as where,
    ):
        announce(where)
        threading.Event().wait()


def _checked(settings: Settings) -> Settings:
    """Refuse what replicas cannot serve, before a cluster is joined."""
    settings = settings.checked()
    if settings.indexes:
        raise InputError("--index does not work with --ray", "serve the index without --ray")
    if settings.port == 0:
        raise InputError(
            "--port 0 does not work with --ray", "choose the --port on which the cluster listens"
        )
    if settings.device not in (None, "cpu"):
        raise InputError(
            f"--device {settings.device} does not work with --ray, which computes on CPUs", "remove --device"
        )
    for model in settings.models:
        check_address(model)
    return settings


def _application(settings: Settings, replicas: int) -> Any:
    def build() -> FastAPI:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # one device for all, so that they give the same bytes
        log_to_standard_error()
        return create_app(settings)

    deployment = ray_serve.deployment(
        name="models",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": settings.workers},
        # Each replica says itself when it has too much to do.
        max_ongoing_requests=settings.max_requests + 1,
        graceful_shutdown_timeout_s=settings.stop_seconds,
    )
    return deployment(ray_serve.ingress(build)()).bind()


def _reason(error: RuntimeError) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "InputError: " in line), lines[-1] if lines else "unknown reason")
