"""`sentemb serve`: models and indexes over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.cli.console import next_step, say
from sentemb.cli.options import Device, MaybeModels, Precision
from sentemb.errors import InputError


def serve(
    models: MaybeModels = None,
    index: Annotated[
        list[Path] | None, typer.Option(help="Index folder to serve. Repeat for several.")
    ] = None,
    reranker: Annotated[
        list[str] | None,
        typer.Option(help="Cross-encoder to serve for reranking: a folder. Repeat for several."),
    ] = None,
    classifier: Annotated[
        list[Path] | None, typer.Option(help="Classifier folder to serve. Repeat for several.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. The default accepts requests from this machine only.")
    ] = ("127.0.0.1"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on. 0 chooses a free one.")
    ] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option(help="File with API keys, one per line. The default is the variable SENTEMB_API_KEYS."),
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option(
            "--no-auth",
            help="Accept requests from other machines without a key. They cannot change an index.",
        ),
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not allow changes of an index.")] = False,
    truncate: Annotated[
        Literal["error", "truncate"],
        typer.Option(
            help="Texts longer than the model's maximum length: answer with an error, or truncate and count "
            "them."
        ),
    ] = "error",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of model threads, each on one core. The default is all cores."),
    ] = None,
    precision: Precision = "float32",
    device: Device = None,
    ray: Annotated[
        str | None, typer.Option(help="Serve from a Ray cluster: local, auto, host:6379 or ray://host:10001.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="Number of copies of the models on the Ray cluster.", show_default="1"
        ),
    ] = None,
) -> None:
    """Serve embeddings (OpenAI-compatible), reranking, classification, search and a search page over HTTP."""
    from sentemb.serving.settings import Settings, read_keys

    if replicas is not None and ray is None:
        raise InputError("--replicas works only with --ray", "add --ray, or use --workers")

    settings = Settings(
        models=tuple(models or ()),
        indexes=tuple(index or ()),
        rerankers=tuple(reranker or ()),
        classifiers=tuple(classifier or ()),
        host=host,
        port=port,
        keys=None if no_auth and keys is None else read_keys(keys),
        no_auth=no_auth,
        read_only=read_only,
        truncate=truncate,
        workers=workers,
        precision=precision,
        device=device,
    )

    def announce(address: str) -> None:
        say(f"serving on {address}")
        next_step(f"open {address} in a browser" if settings.indexes else f"curl {address}/v1/models")

    if ray is None:
        from sentemb.serving.server import serve as run

        run(settings, announce=announce)
    else:
        from sentemb.serving.replicas import serve_replicas

        serve_replicas(settings, address=ray, replicas=replicas or 1, announce=announce)
