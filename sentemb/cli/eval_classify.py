"""`sentemb eval classify`: the experiments of the papers on labelled texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.eval_tables import Baseline, Best, Figures, draw
from sentemb.cli.options import DataDir
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.data.augmented import Copy
    from sentemb.data.labelled import LabelledTexts
    from sentemb.evaluation.classification.protocols import Protocol

Name = Literal["full", "few-shot", "few-shot-per-class", "transfer", "imbalance", "noise", "classes"]
Rule = Literal["scl", "lacon", "sg-bert", "published"]


def classify(
    protocol: Annotated[Name, typer.Argument(help="The experiment.")],
    methods: Annotated[
        list[str],
        typer.Argument(help="Recipes, such as ce scl lacon; supcl-seq-views; or names in --methods."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for records and tables.")],
    sets: Annotated[
        str | None, typer.Option(help="Labelled sets: cola,mrpc,rte; SET/SPLIT trains on that split.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="Base model of every method.")] = None,
    base_for: Annotated[
        list[str] | None, typer.Option(help="Base model on one set: SET=BASE; repeat it for more.")
    ] = None,
    values: Annotated[
        str | None, typer.Option(help="Other values than the paper's, such as 20,100 examples.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Train on a stratified subset, the same for every method and seed (full; of the source).",
        ),
    ] = None,
    test_rows: Annotated[
        int | None, typer.Option(min=2, help="Test on a stratified subset, the same for every seed.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The set on which models are tuned first (transfer).")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="One run each: 1,2,3.")] = None,
    rule: Annotated[
        Rule | None,
        typer.Option(help="How validation and test rows are made; the experiment's own by default."),
    ] = None,
    paper: Annotated[
        Literal["scl", "lacon"] | None,
        typer.Option(help="Whose metrics and optimization; by default those of the rule."),
    ] = None,
    best: Best = None,
    methods_file: Annotated[
        Path | None, typer.Option("--methods", help="TOML file: a table of options for each method.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="For every method: KEY=VALUE, loss_options.KEY=VALUE.")
    ] = None,
    baseline: Baseline = "ce",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that run cells.")] = 1,
    copies: Annotated[
        list[str] | None, typer.Option(help="Back-translations: SET=FILE (experiment noise).")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Your own training rows, in place of --sets.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Your own dev rows.")] = None,
    test: Annotated[Path | None, typer.Option(help="Your own test rows.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Text column; repeat it for pairs.")] = None,
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    figures: Figures = False,
    data_dir: DataDir = None,
    allow_count_mismatch: Annotated[
        bool, typer.Option("--allow-count-mismatch", help="Use sets with missing or extra rows.")
    ] = False,
) -> None:
    """Train methods on labelled texts and compare them. Finished cells are kept and not run again.

    All methods share base, epochs, batch size, learning rate and schedule, unless a table of --methods gives
    one its own; the notes below the scores say which.
    """
    from sentemb.classification import ClassifierConfig
    from sentemb.classification.studies import run_protocol
    from sentemb.classification.transfer import tune_on_source
    from sentemb.evaluation.classification.methods import find_methods, joined
    from sentemb.evaluation.classification.sets import ProtocolData
    from sentemb.training import parse_settings, split_settings

    own = _own({"train": train, "dev": dev, "test": test}, column or ["text"], label)
    names = [name.strip() for name in sets.split(",")] if sets else list(own)
    if not names:
        raise InputError("no labelled set", "name some with --sets, or give --train and --test")
    options = parse_settings(split_settings(setting or ()), ClassifierConfig)
    options |= {} if base is None else {"base": base}
    experiment = _experiment(protocol, values, rows)
    experiment = replace(
        experiment,
        seeds=experiment.seeds if seeds is None else parse_numbers("seeds", seeds),
        best=best or experiment.best,
        rule=rule or experiment.rule,
        paper=paper or experiment.paper,
        options=joined(experiment.options, options),
        bases=dict(_assignment("base-for", one) for one in base_for or ()),
    )
    data = ProtocolData(
        data_dir,
        rule=experiment.rule,
        own=own,
        copies=_copies(copies or []),
        test_rows=test_rows,
        check_rows=not allow_count_mismatch,
    )
    chosen = find_methods(methods, methods_file)
    if source is not None:
        chosen = tune_on_source(experiment, chosen, source, rows=rows, data=data, folder=output, say=_say)
    path = run_protocol(
        experiment, chosen, names, data=data, folder=output, baseline=baseline, jobs=jobs, say=_say
    )
    typer.echo(path.read_text(encoding="utf-8"), nl=False)
    if figures:
        draw(experiment, output)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _experiment(name: str, values: str | None, rows: int | None) -> Protocol:
    from sentemb.evaluation.classification.protocols import PROTOCOLS

    if rows is not None and name not in ("full", "transfer"):
        raise InputError("--rows is for the experiment full, and for the source of transfer", "give --values")
    if name == "full" and values is not None:
        raise InputError("the experiment full has no values", "give --rows")
    figures = (rows,) if rows is not None and name == "full" else _numbers("values", values)
    return PROTOCOLS[name]() if figures is None else PROTOCOLS[name](figures)


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """Read an option that takes several whole numbers, such as `--seeds`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise InputError(f"--{option} {text} is no list of different whole numbers from 0", "write 1,2,3")
    return tuple(int(part) for part in parts)


def _assignment(option: str, text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not name or not equals or not value:
        raise InputError(f"--{option} {text} says nothing", f"write --{option} SET=...")
    return name, value


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
        name, path = _assignment("copies", argument)
        pair = "augmented_pair" if name in TASKS and TASKS[name].pair else None
        found[name] = read_copies(path, pair=pair, temperature="temperature")
    return found
