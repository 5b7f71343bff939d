"""`sentemb serve`: models and indexes over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field, ValidationError

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


class _Options(opt.Options):
    models: Annotated[list[str] | None, typer.Argument(help=opt.MODEL, autocompletion=opt.bundled_models)] = (
        None
    )
    served: Annotated[opt.Values, _SERVED]
    how: Annotated[opt.Values, _HOW]
    keys: Path | None = None
    """File with API keys, one per line. The default is the variable SENTEMB_API_KEYS."""
    ray: str | None = None
    """Serve from a Ray cluster: local, auto, host:6379 or ray://host:10001."""
    replicas: int | None = Field(None, ge=1, le=1024)
    """Number of copies of the models on the Ray cluster. Default: 1."""


@opt.grouped
def serve(options: _Options) -> None:
    """Serve embeddings (OpenAI-compatible), reranking, classification, search and a search page over HTTP."""
    if options.replicas is not None and options.ray is None:
        raise InputError("--replicas works only with --ray", "add --ray, or use --workers")
    open_to_all = options.how["no_auth"] and options.keys is None
    keys = None if open_to_all else read_keys(options.keys)
    values = {"models": tuple(options.models or ()), "keys": keys, **options.served, **options.how}
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise described_error(error, values, known=()) from None

    def announce(address: str) -> None:
        say(f"serving on {address}")
        next_step(f"open {address} in a browser" if settings.indexes else f"curl {address}/v1/models")

    if options.ray is None:
        from sentemb.serving.server import serve as run

        run(settings, announce=announce)
    else:
        from sentemb.serving.replicas import serve_replicas

        serve_replicas(settings, address=options.ray, replicas=options.replicas or 1, announce=announce)
