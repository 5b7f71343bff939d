"""`sentemb analyse`: layers, geometry and t-SNE maps of encoders, as tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from sentemb._files import check_writable, write_bytes
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, say, show
from sentemb.errors import InputError, naming


class _Layers(opt.Options):
    model: opt.Model
    sets: str = "stsb"
    """STS sets, separated by commas: sts12 to sts16, stsb, sickr, sickr-mteb."""
    split: Literal["test", "dev", "train"] = "test"
    """Split of the sets to score."""
    poolings: str = "cls,mean,max"
    """Poolings, separated by commas: cls, mean, max, lasttoken, ..."""
    data_dir: opt.DataDir = None
    output: opt.Output = None
    max_length: opt.MaxLength = None
    device: opt.Device = None
    overwrite: opt.Overwrite = False
    allow_count_mismatch: opt.AllowCountMismatch = False


@opt.grouped
def layers(options: _Layers) -> None:
    """Score every layer with every pooling in one forward pass (SG-BERT, figure 1)."""
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.layers import evaluate_layers
    from sentemb.report.analysis import layer_record_figure, layer_tables
    from sentemb.report.figures import png_of

    output = options.output
    if output is not None:
        check_writable(output)
    record = evaluate_layers(
        options.model,
        opt.split_names(options.sets),
        poolings=opt.split_names(options.poolings),
        **options.values("split", "data_dir", "device", "max_length", "overwrite"),
        check_rows=not options.allow_count_mismatch,
        folder=output,
        command=command_line(),
    )
    for table in layer_tables(record):
        show(table)
    seconds = record.environment.seconds["layers"]
    say(f"{record.details['unique']:,} unique sentences encoded and scored in {seconds:.1f} s")
    if output is None:
        next_step("run the command again with --output FOLDER to save the record and draw the figure")
        return
    picture = Path(record.file_name).with_suffix(".png").name
    write_bytes(output / picture, png_of(layer_record_figure(record)[0]))
    typer.echo(f"{output}: {record.file_name}, {picture}")
    next_command("report", output)


class _Geometry(opt.Options):
    folders: Annotated[list[Path], typer.Argument()]
    """Folders with records of `sentemb eval geometry`."""
    output: opt.OutputFolder
    run: list[Path] | None = None
    """Draw alignment and uniformity over the training steps of this run (a folder of `sentemb train`). For
    several seeds, draw their mean. Repeat for several runs."""


@opt.grouped
def geometry(options: _Geometry) -> None:
    """Draw alignment over uniformity, optionally with training paths, and the spectra of encoders.

    Writes two figures per data set of the records. --run needs a geometry record of the run's model on its
    dev set.
    """
    from sentemb.evaluation.record import load_records
    from sentemb.evaluation.schema import slug
    from sentemb.evaluation.suites import GEOMETRY
    from sentemb.report.analysis import by_pairs, geometry_figures, read_training_path, shown_name
    from sentemb.report.figures import png_of
    from sentemb.report.table import read_labels

    folders, output = options.folders, options.output
    groups = by_pairs(load_records(folders, suite=GEOMETRY.name))
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    paths = []
    for folder in options.run or ():
        path = read_training_path(folder)
        if path is None:
            step = "name an output folder of `sentemb train`"
            raise InputError(f"{folder} does not contain a training run with a dev set", step)
        there = {shown_name(one.model, labels) for some in groups for one in some if path.is_on(one)}
        if shown_name(path.name, labels) not in there:
            raise InputError(
                f"{path.name} does not have a geometry record on its dev set, {path.dev}",
                f"write one with `sentemb eval geometry {folder} --data SET --output FOLDER`",
            )
        paths.append(path)
    check_writable(output)
    for some in groups:
        figures = geometry_figures(some, labels, paths)
        for kind, figure in zip(("alignment-uniformity", "spectrum"), figures, strict=True):
            picture = output / f"{slug(some[0].protocol)}.{kind}.png"
            write_bytes(picture, png_of(figure))
            typer.echo(str(picture))
    next_command("report", *folders, "-o", "report.html")


class _Picture(opt.Options):
    output: Annotated[Path, typer.Option("--output", "-o", callback=opt.local_output)]
    """Output file of the figure (.png)."""
    seed: opt.Seed = 0
    data_dir: opt.DataDir = None
    overwrite: opt.Overwrite = False

    def check_picture(self, *inputs: str | Path) -> None:
        """Refuse an output that is not a new picture."""
        if self.output.suffix != ".png":
            raise InputError(f"--output {self.output} is not a .png file", "write --output NAME.png")
        self.check_output(*inputs)

    def save(self, figure: Any) -> None:
        """Write the picture, and print its name."""
        from sentemb.report.figures import png_of

        write_bytes(self.output, png_of(figure))
        typer.echo(str(self.output))


class _PairMap(_Picture):
    models: opt.Models
    data: str = "stsb"
    """Scored pairs: name of a data set, or a file."""
    split: str = "dev"
    """Split of the data set."""
    pairs: int = Field(20, ge=1)
    """Number of pairs to draw from the highest and from the lowest scores."""
    pooling: opt.Pooling = None


@opt.grouped
def pair_map(options: _PairMap) -> None:
    """Draw a t-SNE map of the most and the least similar pairs (SG-BERT, figures 5 and 6)."""
    from sentemb.data.sampling import draw_extremes
    from sentemb.data.sts import load_scored_pairs
    from sentemb.encoding import TextEncoder, load_encoder
    from sentemb.modules.source import find_source
    from sentemb.report.figures import pair_map_figure

    models, data, seed = options.models, options.data, options.seed
    options.check_picture(data, *models)
    scored = load_scored_pairs(data, **options.values("split", "data_dir"))
    with naming(data):
        drawn = draw_extremes(scored.gold, count=options.pairs, seed=seed)
    texts = [side[row] for rows in drawn for row in rows for side in (scored.first, scored.second)]
    encoders: dict[str, TextEncoder] = {}
    for model in models:
        # The pooling is for pretrained bases.
        is_base = options.pooling is not None and not find_source(model).has_modules
        encoder = load_encoder(model, pooling=options.pooling if is_base else None)  # type: ignore[arg-type]
        if encoder.name in encoders:
            raise InputError(
                f"two models would both be called {encoder.name} in the figure",
                "list each model once, or rename one of the folders",
            )
        encoders[encoder.name] = encoder
    vectors = {name: encoder.encode(texts) for name, encoder in encoders.items()}
    options.save(pair_map_figure(vectors, positives=options.pairs, seed=seed))
    next_command("eval", "geometry", *models, "--data", data, "--output", "FOLDER")


class _ClassMap(_Picture):
    classifiers: Annotated[list[Path], typer.Argument()]
    """Folders of classifiers. Each gets a panel."""
    data: str
    """Labelled texts: name of a data set, or a file."""
    split: str = "dev"
    """Split of the data set."""
    rows: int = Field(500, ge=10)
    """Number of texts to draw, as a stratified sample."""


@opt.grouped
def class_map(options: _ClassMap) -> None:
    """Draw a t-SNE map of texts (dots) and label vectors (stars) (SCL, figure 2; LaCon, figure 4)."""
    from sentemb.classification.classifier import map_classes
    from sentemb.data.labelled import load_labelled
    from sentemb.data.sampling import stratified_sample
    from sentemb.report.figures import label_map_figure

    classifiers, seed = options.classifiers, options.seed
    options.check_picture(options.data, *classifiers)
    whole = load_labelled(options.data, **options.values("split", "data_dir"))
    texts = whole.select(stratified_sample(whole.labels, min(options.rows, len(whole)), seed=seed))
    panels = map_classes(classifiers, texts)
    options.save(label_map_figure(panels, texts.labels.astype(int), texts.label_names, seed=seed))
    next_command("classify", classifiers[0], "FILE", "--output", "classes.csv")
