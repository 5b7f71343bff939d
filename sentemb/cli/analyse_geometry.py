"""`sentemb analyse geometry`: how the vectors of encoders lie, and how training moved them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.analyse_encoders import load_named
from sentemb.cli.options import DataDir
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.data.sts import ScoredPairs
    from sentemb.evaluation.spread import Spread
    from sentemb.training.trace import Trace


def geometry(
    models: Annotated[
        list[str], typer.Argument(help="Folders of runs, whose way is drawn as well, or any other models.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures and the numbers.")],
    data: Annotated[
        str | None,
        typer.Option("--data", help="Scored pairs: a set's name or a file; the runs' dev set, or stsb."),
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="For raw transformers: cls, mean, ...")] = None,
    data_dir: DataDir = None,
) -> None:
    """Alignment, uniformity, anisotropy and spectrum of encoders, and the way that training took them."""
    from sentemb.data.sts import load_scored_pairs
    from sentemb.evaluation.record import prepare_folder
    from sentemb.evaluation.spread import geometry_table, measure_spread
    from sentemb.training.trace import read_trace

    prepare_folder(output)
    encoders = load_named(models, pooling=pooling)
    found = {
        name: read_trace(Path(model), ("alignment", "uniformity"))
        for name, model in zip(encoders, models, strict=True)
    }
    traces = {name: trace for name, trace in found.items() if trace is not None}
    recorded = next((trace.data_dir for trace in traces.values()), None)
    pairs = load_scored_pairs(_source(data, traces), split="dev", data_dir=data_dir or recorded)
    spreads = {name: measure_spread(encoder, pairs) for name, encoder in encoders.items()}
    _write(output, pairs, spreads, traces)
    typer.echo(geometry_table(spreads, pairs).markdown())
    typer.echo(f"{output}: alignment-uniformity.png, spectrum.png, geometry.json")


def _source(data: str | None, traces: Mapping[str, Trace]) -> str:
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


def _write(
    folder: Path, pairs: ScoredPairs, spreads: Mapping[str, Spread], traces: Mapping[str, Trace]
) -> None:
    from sentemb._files import write_bytes, write_json
    from sentemb.report.figures import png_of
    from sentemb.report.geometry import alignment_figure, spectrum_figure

    numbers = {
        name: {**one.geometry._asdict(), "spectrum": one.spectrum.tolist()} for name, one in spreads.items()
    }
    runs = {name: {"steps": trace.steps, **trace.values} for name, trace in traces.items()}
    described = {"data": pairs.name, "split": pairs.split, "encoders": numbers, "runs": runs}
    write_json(folder / "geometry.json", described)
    points = {name: (one.geometry.uniformity, one.geometry.alignment) for name, one in spreads.items()}
    paths = {
        name: list(zip(trace.values["uniformity"], trace.values["alignment"], strict=True))
        for name, trace in traces.items()
    }
    write_bytes(folder / "alignment-uniformity.png", png_of(alignment_figure(points, paths)))
    spectra = {name: one.spectrum for name, one in spreads.items()}
    ranks = {name: one.geometry.effective_rank for name, one in spreads.items()}
    write_bytes(folder / "spectrum.png", png_of(spectrum_figure(spectra, ranks)))
