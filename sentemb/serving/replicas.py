"""Replicas of a server on a Ray cluster, behind one address; no other file imports Ray Serve."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from fastapi import FastAPI
from ray import serve as ray_serve

from sentemb.encoding.cluster import connected
from sentemb.encoding.resolve import check_address
from sentemb.errors import InputError
from sentemb.serving.app import create_app
from sentemb.serving.server import KEEP_ALIVE, address_of, log_to_standard_error
from sentemb.serving.settings import Settings


def serve_replicas(
    settings: Settings, *, address: str, replicas: int, announce: Callable[[str], None]
) -> None:
    """Serve as `served` does until a signal stops it; see `sentemb.serving.server.serve`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like an interrupt, also while it starts
    with (
        contextlib.suppress(KeyboardInterrupt),
        served(settings, address=address, replicas=replicas) as url,
    ):
        announce(url)
        threading.Event().wait()


@contextlib.contextmanager
def served(settings: Settings, *, address: str, replicas: int) -> Iterator[str]:
    """Serve models with several replicas, each the application of `create_app`; yields the address.

    On a loopback address only the head node listens; otherwise every node with a replica does.
    """
    _check(settings)
    settings = replace(settings, workers=settings.workers or 1)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with connected(address, cpus=replicas * (settings.workers or 1)):
        if ray_serve.status().proxies:
            # Its proxies would keep their own address, which may admit whom the settings exclude.
            raise InputError(
                f"Ray Serve is already running on the cluster {address}",
                "stop it with `serve shutdown`, or choose another cluster",
            )
        host = settings.host.strip("[]")
        http = {"host": host, "port": settings.port, "keep_alive_timeout_s": KEEP_ALIVE}
        deployment = ray_serve.deployment(
            name="models",
            num_replicas=replicas,
            ray_actor_options={"num_cpus": settings.workers},
            max_ongoing_requests=settings.max_requests + 1,  # each replica answers 429 itself
            graceful_shutdown_timeout_s=settings.stop_seconds,
        )

        def build() -> FastAPI:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # one device for all, so that they give the same bytes
            log_to_standard_error()
            return create_app(settings)

        try:
            where = "HeadOnly" if settings.is_loopback else "EveryNode"
            ray_serve.start(proxy_location=where, http_options=http)
            ray_serve.run(deployment(ray_serve.ingress(build)()).bind(), name="sentemb", route_prefix="/")
            yield address_of(settings.host, settings.port)
        except RuntimeError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["unknown reason"]
            reason = next((line for line in lines if "InputError: " in line), lines[-1])
            raise InputError(
                f"the replicas failed to start: {reason}", "see the logs of the Ray cluster"
            ) from None
        finally:
            ray_serve.shutdown()


def _check(settings: Settings) -> None:
    """Raise InputError if replicas do not support the settings, before a cluster is joined."""
    settings.checked()
    if settings.indexes:
        raise InputError("--index does not work with --ray", "serve the index without --ray")
    if settings.port == 0:
        raise InputError("--port 0 does not work with --ray", "choose the --port that the cluster listens on")
    if settings.device not in (None, "cpu"):
        raise InputError(
            f"--device {settings.device} does not work with --ray, which computes on CPUs", "remove --device"
        )
    for model in settings.models:
        check_address(model)
