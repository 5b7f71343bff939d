"""`sentemb eval classify`: the experiments of the papers on labelled texts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb._files import write_bytes
from sentemb.cli.data import DataDir
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.data.augmented import Copy
    from sentemb.data.labelled import LabelledTexts
    from sentemb.evaluation.classification.protocols import Protocol
    from sentemb.evaluation.classification.records import CellRecord

Name = Literal["full", "few-shot", "few-shot-per-class", "transfer", "imbalance", "noise", "classes"]


def classify(
    protocol: Annotated[Name, typer.Argument(help="The experiment.")],
    methods: Annotated[
        list[str],
        typer.Argument(help="Recipes, such as ce scl lacon; supcl-seq-views; or names in --methods."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for records and tables.")],
    sets: Annotated[str | None, typer.Option(help="Labelled sets: cola,mrpc,rte.")] = None,
    base: Annotated[str | None, typer.Option(help="Base model of every method.")] = None,
    values: Annotated[
        str | None, typer.Option(help="Other values than the paper's, such as 20,100 examples.")
    ] = None,
    train_size: Annotated[
        int | None, typer.Option(min=2, help="Train on a stratified subset (experiment full).")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="One run each: 1,2,3.")] = None,
    rule: Annotated[
        Literal["scl", "lacon", "sg-bert", "published"] | None,
        typer.Option(help="How validation and test rows are made; the experiment's own by default."),
    ] = None,
    best: Annotated[
        int | None, typer.Option(min=1, help="Report so many runs, the best by validation.")
    ] = None,
    methods_file: Annotated[
        Path | None, typer.Option("--methods", help="TOML file: a table of options for each method.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="For every method: KEY=VALUE, loss_options.KEY=VALUE.")
    ] = None,
    baseline: Annotated[str, typer.Option(help="The method that others are compared with.")] = "ce",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that run cells.")] = 1,
    copies: Annotated[
        list[str] | None, typer.Option(help="Back-translations: SET=FILE (experiment noise).")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Your own training rows, in place of --sets.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Your own dev rows.")] = None,
    test: Annotated[Path | None, typer.Option(help="Your own test rows.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Text column; repeat it for pairs.")] = None,
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    figures: Annotated[bool, typer.Option("--figures", help="Draw scores against the values.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Train methods on labelled texts and compare them. Finished cells are kept and not run again."""
    from sentemb.classification import ClassifierConfig
    from sentemb.classification.studies import run_protocol
    from sentemb.evaluation.classification.methods import find_methods, with_options
    from sentemb.evaluation.classification.sets import ProtocolData
    from sentemb.training import parse_settings, split_settings

    experiment = _experiment(protocol, values, train_size)
    experiment = replace(
        experiment,
        seeds=tuple(int(seed) for seed in _numbers("seeds", seeds) or experiment.seeds),
        best=best or experiment.best,
        rule=rule or experiment.rule,
    )
    own = _own({"train": train, "dev": dev, "test": test}, column or ["text"], label)
    names = [name.strip() for name in sets.split(",")] if sets else list(own)
    if not names:
        raise InputError("no labelled set", "name some with --sets, or give --train and --test")
    options = parse_settings(split_settings(setting or ()), ClassifierConfig)
    options |= {} if base is None else {"base": base}
    records = run_protocol(
        experiment,
        with_options(find_methods(methods, methods_file), options),
        names,
        data=ProtocolData(data_dir, rule=experiment.rule, own=own, copies=_copies(copies or [])),
        folder=output,
        baseline=baseline,
        jobs=jobs,
        say=lambda line: typer.echo(line, err=True),
        command=sys.argv,
    )
    typer.echo((output / "tables.md").read_text(encoding="utf-8"), nl=False)
    if figures:
        _draw(experiment, records, output)


def _experiment(name: str, values: str | None, train_size: int | None) -> Protocol:
    from sentemb.evaluation.classification.protocols import PROTOCOLS

    if train_size is not None and name != "full":
        raise InputError("--train-size is for the experiment full", "give --values")
    figures = (train_size,) if train_size is not None else _numbers("values", values)
    return PROTOCOLS[name]() if figures is None else PROTOCOLS[name](figures)


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) if "." in part else int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--{option} {text} is no list of numbers", "write 1,2,3") from None


def _own(
    files: Mapping[str, Path | None], columns: Sequence[str], label: str
) -> dict[str, dict[str, LabelledTexts]]:
    """The user's own set under the name of its training file, all splits with the classes of that one."""
    from sentemb.classification.files import read_own_labelled

    given = {split: path for split, path in files.items() if path is not None}
    if not given:
        return {}
    if "train" not in given or len(given) == 1:
        raise InputError("a set of one's own needs rows to train and to test on", "give --train and --test")
    splits: dict[str, LabelledTexts] = {}
    for split, path in given.items():
        names = splits["train"].label_names if splits else None
        splits[split] = read_own_labelled(path, columns=columns, label=label, label_names=names, split=split)
    name = splits["train"].name
    return {name: {split: replace(data, name=name) for split, data in splits.items()}}


def _copies(arguments: Sequence[str]) -> dict[str, list[Copy]]:
    from sentemb.data.augmented import read_copies
    from sentemb.evaluation.classification import TASKS

    found = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals:
            raise InputError(f"--copies {argument} names no file", "write SET=FILE")
        pair = "augmented_pair" if name in TASKS and TASKS[name].pair else None
        found[name] = read_copies(path, pair=pair, temperature="temperature")
    return found


def _draw(protocol: Protocol, records: Sequence[CellRecord], folder: Path) -> None:
    from sentemb.evaluation.classification import curves, summarize
    from sentemb.evaluation.classification.tables import METRIC_NAMES, figure_name
    from sentemb.report.figures import png_of
    from sentemb.report.studies import band_figure

    metrics = {record.cell.data: METRIC_NAMES[record.cell.metric] for record in records}
    for data, lines in curves(summarize(records, best=protocol.best)).items():
        label = f"{data}, {metrics[data]} x 100"
        figure = band_figure(lines, x_label=figure_name(protocol.points[0]), y_label=label)
        path = folder / f"{data}.png"
        write_bytes(path, png_of(figure))
        typer.echo(str(path), err=True)
