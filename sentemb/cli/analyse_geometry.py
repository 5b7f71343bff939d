"""`sentemb analyse geometry`: how the vectors of encoders lie, and how training moved them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb.cli.analyse_maps import load_named
from sentemb.cli.console import next_step, show
from sentemb.cli.options import DataDir, Models, OutputFolder, Pooling
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.data.sts import ScoredPairs
    from sentemb.encoding import TextEncoder
    from sentemb.report.analyses import GeometryFile
    from sentemb.training.learning_curves import LearningCurves


def geometry(
    models: Models,
    output: OutputFolder,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Scored pairs: a set's name or a file; the runs' dev set, or stsb."),
    ] = None,
    pooling: Pooling = None,
    data_dir: DataDir = None,
) -> None:
    """Alignment, uniformity, anisotropy and spectrum of encoders, and the way that training took them.

    The folders of runs show how alignment and uniformity went over the steps; other models stand beside them.
    """
    from sentemb.data.sts import load_scored_pairs
    from sentemb.evaluation.record import prepare_folder
    from sentemb.report.analyses import GeometryFile
    from sentemb.training.learning_curves import read_learning_curves

    prepare_folder(output)
    encoders = load_named(models, pooling=pooling)
    found = {
        name: read_learning_curves(Path(model), ("alignment", "uniformity"))
        for name, model in zip(encoders, models, strict=True)
    }
    traces = {name: trace for name, trace in found.items() if trace is not None}
    recorded = next((trace.data_dir for trace in traces.values()), None)
    pairs = load_scored_pairs(_source(data, traces), split="dev", data_dir=data_dir or recorded)
    measured = {
        "data": pairs.name,
        "split": pairs.split,
        "encoders": {name: _measure(encoder, pairs) for name, encoder in encoders.items()},
        "runs": {name: {"steps": trace.steps, **trace.values} for name, trace in traces.items()},
    }
    read = GeometryFile.model_validate(measured)
    _write(output, measured, read)
    show(read.table())
    typer.echo(f"{output}: alignment-uniformity.png, spectrum.png, geometry.json")
    next_step(f"sentemb report {output}")


def _source(data: str | None, traces: Mapping[str, LearningCurves]) -> str:
    """The pairs to measure on: those that the runs were measured on, since other pairs have other figures."""
    sources = {name: trace.dev for name, trace in traces.items()}
    for name, dev in sources.items():
        wanted = data if data is not None else next(iter(sources.values()))
        if dev != wanted:
            raise InputError(
                f"{name} was measured on {dev} while it was trained, not on {wanted}",
                "compare runs with one dev set, and leave --data out",
            )
    return data or next(iter(sources.values()), "stsb")


def _measure(encoder: TextEncoder, pairs: ScoredPairs) -> dict[str, Any]:
    from sentemb.evaluation.geometry import measure_geometry, spectrum
    from sentemb.evaluation.sts import encode_sets

    encoded = encode_sets(encoder, [pairs])
    return {**measure_geometry(encoded)._asdict(), "spectrum": spectrum(encoded.vectors).tolist()}


def _write(folder: Path, measured: Mapping[str, Any], found: GeometryFile) -> None:
    from sentemb._files import write_bytes, write_json
    from sentemb.report.figures import png_of
    from sentemb.report.geometry import geometry_figures

    write_json(folder / "geometry.json", measured)
    for name, figure in zip(("alignment-uniformity", "spectrum"), geometry_figures(found), strict=True):
        write_bytes(folder / f"{name}.png", png_of(figure))
