"""`sentemb eval all`, `transfer` and `geometry`: encoders on suites, each unique sentence encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb.cli.console import next_step, say, show
from sentemb.cli.options import (
    AllowCountMismatch,
    CacheDir,
    DataDir,
    Device,
    MaxLength,
    Models,
    Output,
    Overwrite,
    Pooling,
    Precision,
    split_names,
    split_numbers,
)

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder
    from sentemb.evaluation.runner import EvaluationResult

AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Skip data sets that are missing.")]
Preset = Annotated[
    str, typer.Option(help="Classifiers: sg-bert or simcse for papers' rows, simcse-fast or logreg.")
]


def evaluate_everything(
    models: Models,
    suites: Annotated[
        str, typer.Option(help="Some of these, separated by commas.")
    ] = "sts,multilingual,geometry,transfer",
    preset: Preset = "simcse-fast",
    data_dir: DataDir = None,
    output: Output = None,
    overwrite: Overwrite = False,
    allow_missing: AllowMissing = False,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: CacheDir = None,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Evaluate encoders on STS, other languages, geometry and transfer tasks, each sentence encoded once.

    Each suite leaves a record in --output. What is recorded there for the same encoder and settings is
    skipped, so the same command resumes an interrupted one. A missing data set ends the command before
    anything is encoded, unless --allow-missing skips it.
    """
    options: dict[str, Any] = {"preset": preset, "check_rows": not allow_count_mismatch}
    how: dict[str, Any] = {
        "pooling": pooling,
        "precision": precision,
        "max_length": max_length,
        "device": device,
    }
    _evaluate(
        models,
        split_names(suites),
        data_dir,
        options,
        partial(_load, data_dir=data_dir, cache_dir=cache_dir, **how),
        output=output,
        overwrite=overwrite,
        allow_missing=allow_missing,
    )


def transfer(
    models: Models,
    tasks: Annotated[
        str,
        typer.Option(
            help="mr, cr, subj, mpqa, sst2, trec, mrpc, sst5, sick-e, stsb-trained, sickr-trained, a probing "
            "task; or `transfer`, the papers' seven, and `probing`, the ten of these."
        ),
    ] = "transfer",
    preset: Preset = "simcse",
    seeds: Annotated[str, typer.Option(help="Of the classifiers, a record each: 1,2,3.")] = "1111",
    data_dir: DataDir = None,
    output: Output = None,
    overwrite: Overwrite = False,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: CacheDir = None,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Train SentEval's classifiers on frozen sentence vectors (SentEval's transfer and probing tasks).

    Accuracies under different presets do not compare. The regressions of stsb-trained and sickr-trained are
    SentEval's own way with these sets, under every preset the same.
    """
    from sentemb.evaluation.transfer import PROBING_TASKS, TRANSFER_TASKS

    groups = {"transfer": TRANSFER_TASKS, "probing": PROBING_TASKS}
    options: dict[str, Any] = {
        "tasks": [name for given in split_names(tasks) for name in groups.get(given, (given,))],
        "preset": preset,
        "seeds": split_numbers("seeds", seeds),
        "check_rows": not allow_count_mismatch,
    }
    how: dict[str, Any] = {
        "pooling": pooling,
        "precision": precision,
        "max_length": max_length,
        "device": device,
    }
    load = partial(_load, data_dir=data_dir, cache_dir=cache_dir, **how)
    _evaluate(models, ["transfer"], data_dir, options, load, output=output, overwrite=overwrite)


def geometry(
    models: Models,
    data: Annotated[str, typer.Option("--data", help="Scored pairs: a set's name or a file.")] = "stsb",
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
    data_dir: DataDir = None,
    output: Output = None,
    overwrite: Overwrite = False,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: CacheDir = None,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Measure alignment, uniformity, anisotropy and effective rank of encoders, with intervals."""
    options = {"pairs": data, "split": split, "check_rows": not allow_count_mismatch}
    how: dict[str, Any] = {
        "pooling": pooling,
        "precision": precision,
        "max_length": max_length,
        "device": device,
    }
    load = partial(_load, data_dir=data_dir, cache_dir=cache_dir, **how)
    _evaluate(models, ["geometry"], data_dir, options, load, output=output, overwrite=overwrite)


def _load(model: str, **how: Any) -> TextEncoder:
    from sentemb.encoding import load_encoder

    return load_encoder(model, **how)


def _evaluate(
    models: Sequence[str],
    suites: Sequence[str],
    data_dir: Path | None,
    options: dict[str, Any],
    load: Callable[[str], TextEncoder],
    *,
    output: Path | None,
    overwrite: bool,
    allow_missing: bool = False,
) -> None:
    """Evaluate one encoder after the other, and show them side by side."""
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.record import prepare_folder
    from sentemb.evaluation.runner import Options, load_suites, run_suites

    if output is not None:
        prepare_folder(output)
    loaded = load_suites(suites, Options(data_dir=data_dir, **options), allow_missing=allow_missing)
    results: list[EvaluationResult] = []
    try:
        for number, model in enumerate(models, start=1):
            say(f"[{number}/{len(models)}] {model}")
            results.append(
                run_suites(
                    load(model),
                    loaded,
                    output=output,
                    overwrite=overwrite,
                    command=command_line(),
                    announce=say,
                )
            )
    except KeyboardInterrupt:
        if output is not None:
            say(f"what was evaluated is in {output}; the same command resumes from there")
        raise
    finally:
        # What was measured before a later model failed, or before Ctrl-C, is shown all the same.
        if results:
            _show(results, output)


def _show(results: Sequence[EvaluationResult], output: Path | None) -> None:
    from sentemb.cli.tables import tables_of

    for table in tables_of([record for result in results for record in result.records.values()]):
        show(table)
        typer.echo()
    for line in _summary(results):
        say(line)
    if output is None:
        next_step("the same command with --output FOLDER keeps records to compare and to report")
    elif len(results) > 1:
        next_step(f"sentemb compare {results[0].model} {results[1].model} --records {output}")
    else:
        next_step(f"sentemb report {output}")


def _summary(results: Sequence[EvaluationResult]) -> list[str]:
    """What was skipped, and how long the rest took."""
    missing = list(dict.fromkeys(error.name for error in results[0].missing))
    lines = [f"skipped, since they are missing: {', '.join(missing)}"] if missing else []
    for one in results:
        if one.reused:
            lines.append(f"{one.model}: {', '.join(one.reused)} recorded already, not evaluated again")
        if one.seconds:
            took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one.seconds.items())
            lines.append(f"{one.model}: {one.sentences:,} unique sentences; {took}")
    return lines
