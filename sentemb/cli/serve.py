"""`sentemb serve`: models and indexes over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from sentemb.cli import options as opt
from sentemb.cli.console import next_step, say
from sentemb.errors import InputError
from sentemb.serving.settings import Settings, read_keys
from sentemb.training.config.base import described_error

_SERVED = opt.Fields(
    Settings, ("indexes", "index"), ("rerankers", "reranker"), ("classifiers", "classifier"), repeated=True
)
_HOW = opt.Fields(
    Settings, "host", "port", "no_auth", "read_only", "truncate", "workers", "precision", "device"
)
_MODELS = typer.Argument(help=opt.MODEL, autocompletion=opt.bundled_models)
_KEYS = typer.Option(help="File with API keys, one per line. The default is the variable SENTEMB_API_KEYS.")
_RAY = typer.Option(help="Serve from a Ray cluster: local, auto, host:6379 or ray://host:10001.")
_REPLICAS = typer.Option(
    min=1, max=1024, help="Number of copies of the models on the Ray cluster. Default: 1."
)


@opt.grouped
def serve(
    models: Annotated[list[str] | None, _MODELS] = None,
    *,
    served: Annotated[opt.Values, _SERVED],
    how: Annotated[opt.Values, _HOW],
    keys: Annotated[Path | None, _KEYS] = None,
    ray: Annotated[str | None, _RAY] = None,
    replicas: Annotated[int | None, _REPLICAS] = None,
) -> None:
    """Serve embeddings (OpenAI-compatible), reranking, classification, search and a search page over HTTP."""
    if replicas is not None and ray is None:
        raise InputError("--replicas works only with --ray", "add --ray, or use --workers")
    allowed = None if how["no_auth"] and keys is None else read_keys(keys)
    values = {"models": tuple(models or ()), "keys": allowed, **served, **how}
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise described_error(error, values, known=()) from None

    def announce(address: str) -> None:
        say(f"serving on {address}")
        next_step(f"open {address} in a browser" if settings.indexes else f"curl {address}/v1/models")

    if ray is None:
        from sentemb.serving.server import serve as run

        run(settings, announce=announce)
    else:
        from sentemb.serving.replicas import serve_replicas

        serve_replicas(settings, address=ray, replicas=replicas or 1, announce=announce)
