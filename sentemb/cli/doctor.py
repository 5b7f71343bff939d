"""`sentemb doctor`: what this machine computes with, and whether that keeps sentemb's promises."""

from __future__ import annotations

import os
import platform
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say, show

# What decides how the libraries compute, and how their threads wait.
_SETTINGS = (
    *("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "OPENBLAS_CORETYPE"),
    *("MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"),
)
_MODELS = ("static-mini", "sg-bert-mini")
_CHECKED = typer.Argument(
    help="Models to check: bundled models, folders or hub ids.",
    autocompletion=opt.bundled_models,
    show_default=" ".join(_MODELS),
)


def doctor(models: Annotated[list[str] | None, _CHECKED] = None) -> None:
    """Show versions, processor and kernels, and check that vectors do not depend on their batch.

    A text should have the same vector, to the last bit, alone and in any batch, with any number of threads.
    Otherwise served, cached and indexed vectors differ. This depends on the kernels of the processor, so it
    is checked here. Exits with 1 if a vector differs.
    """
    import torch
    from threadpoolctl import threadpool_info

    from sentemb._machine import cores, describe_processor, memory_gib
    from sentemb.data.bundled_text import bundled_sentences
    from sentemb.encoding import load_encoder
    from sentemb.encoding.linear import this_processor
    from sentemb.encoding.rows import compare_batches
    from sentemb.evaluation.environment import library_versions
    from sentemb.report.table import Table

    memory = memory_gib()
    size = "" if memory is None else f", {memory:g} GiB of memory"
    typer.echo(f"system: {platform.platform()}, {cores()} cores{size}")
    typer.echo(f"processor: {describe_processor()}")
    typer.echo(f"versions: {', '.join(f'{name} {version}' for name, version in library_versions().items())}")
    processor = this_processor()
    kernels = [("torch", torch.backends.cpu.get_cpu_capability(), str(torch.get_num_threads()))]
    for library in threadpool_info():
        kind = str(library.get("architecture") or library["internal_api"])
        kernels.append((Path(library["filepath"]).name, kind, str(library["num_threads"])))
    waiting = ", ".join(f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ)
    notes = (
        f"packed linear layers (oneDNN): {'yes' if processor.packs and processor.avx512 else 'no'}; "
        f"in bfloat16 with --precision reduced: {'yes' if processor.bfloat16 else 'no'}",
        f"environment variables: {waiting or 'none set'}",
    )
    show(Table("Kernels", ("library", "instructions", "threads"), tuple(kernels), notes, names=2))
    sentences = bundled_sentences()
    texts = [*sentences[:48], *(" ".join(sentences[start : start + 4]) for start in range(0, 48, 4)), "", "a"]
    rows, changed = [], 0
    precisions: tuple[Literal["float32", "reduced"], ...] = ("float32", "reduced")
    for model, precision in product(models or _MODELS, precisions):
        encoder = load_encoder(model, precision=precision)
        differing, largest = compare_batches(encoder, texts)
        changed += differing
        verdict = f"identical alone and in a batch ({len(texts)} texts)"
        if differing:
            verdict = f"{differing} of {len(texts)} texts depend on the batch, by up to {largest:.1g}"
        kernel = str(encoder.describe().get("linear_kernel", "–"))
        rows.append((encoder.name, precision, kernel, verdict))
    header = ("model", "precision", "kernel", "vectors")
    show(Table("Vectors alone and in a batch", header, tuple(rows), names=4))
    if changed:
        say(
            "the last bits of a text's vector depend on the batch on this machine: results agree only up to "
            "rounding"
        )
        raise typer.Exit(1)
    next_command("quickstart")
