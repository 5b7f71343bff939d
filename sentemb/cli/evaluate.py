"""`sentemb eval`: encoders on scored pairs, transfer tasks, geometry and search; each leaves a record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from sentemb.cli.console import next_command, next_step, say, show
from sentemb.cli.options import (
    EvaluationOptions,
    Markdown,
    Models,
    Systems,
    grouped,
    split_names,
    split_seeds,
)
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder
    from sentemb.evaluation.retrieval import Searcher
    from sentemb.evaluation.runner import EvaluationResult
    from sentemb.evaluation.schema import Record

Loaded = TypeVar("Loaded", bound="TextEncoder | Searcher")
Preset = Annotated[
    str, typer.Option(help="Classifiers: sg-bert or simcse for papers' rows, simcse-fast or logreg.")
]


@grouped
def sts(
    models: Models,
    options: EvaluationOptions,
    suite: Annotated[
        Literal["sts", "multilingual"], typer.Option(help="multilingual: the seven tracks of SemEval-2017.")
    ] = "sts",
    sets: Annotated[
        str | None,
        typer.Option(
            help="Your own files of scored pairs, or sets such as sts12, stsb, sickr-mteb, sts14-es, sts17, "
            "sts22-de-en, separated by commas; the suite's by default."
        ),
    ] = None,
    protocol: Annotated[
        Literal["all", "mean", "wmean"] | None,
        typer.Option(help="Subsets of a set: concatenated, averaged, or averaged by size; the suite's."),
    ] = None,
    measure: Annotated[
        Literal["spearman", "pearson"] | None, typer.Option(help="The correlation to show; the suite's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed the model was trained with; known of folders called NAME-seed-N.")
    ] = None,
    export_mteb: Annotated[Path | None, typer.Option(help="Folder for result files of MTEB.")] = None,
    markdown: Markdown = False,
) -> None:
    """Score encoders by the correlation of cosine similarities with gold scores.

    On STS12-16, STS-B and SICK-R, on other languages, or on your own pairs: two texts and a score a row.
    """
    from sentemb.cli.export import export_record
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.mteb import unexported
    from sentemb.evaluation.sts import evaluate_pairs, load_sets
    from sentemb.evaluation.suites import get_suite
    from sentemb.report.results import sts_table

    output = options.output
    _prepare(models, options, output, export_mteb)
    chosen = get_suite(suite)
    names = chosen.sets if sets is None else split_names(sets)
    pairs = load_sets(names, data_dir=options.data_dir, check_rows=not options.allow_count_mismatch)
    if export_mteb is not None:
        unexported((one.name, one.split, len(one)) for one in pairs)
    records: list[Record] = []
    try:
        for encoder in _systems(models, options.load):
            record = evaluate_pairs(
                encoder,
                pairs,
                suite=chosen,
                seed=seed,
                folder=output,
                overwrite=options.overwrite,
                command=command_line(),
                progress=sys.stderr.isatty(),
            )
            records.append(record)
            counts = f"{record.details['sentences']:,} sentences, {record.details['unique']:,} unique ones"
            say(f"  {counts} encoded in {record.environment.seconds['encode']:.1f} s")
            if output is not None:
                say(f"  {output / record.file_name}")
            if export_mteb is not None:
                export_record(record, export_mteb)
    finally:
        # What was measured before an error in a later model, or before Ctrl-C, is shown all the same.
        if records:
            show(sts_table(records, protocol=protocol, measure=measure, seeds_apart=True), markdown=markdown)
    _say_next([record.model for record in records], output)


@grouped
def transfer(
    models: Models,
    options: EvaluationOptions,
    tasks: Annotated[
        str,
        typer.Option(
            help="mr, cr, subj, mpqa, sst2, trec, mrpc, sst5, sick-e, stsb-trained, sickr-trained, a probing "
            "task; `transfer`, the papers' seven, and `probing`, the ten of these; your own labelled files."
        ),
    ] = "transfer",
    preset: Preset = "simcse",
    seeds: Annotated[str, typer.Option(help="Of the classifiers, a record each: 1,2,3.")] = "1111",
) -> None:
    """Train SentEval's classifiers on frozen sentence vectors (SentEval's transfer and probing tasks).

    A file of your own, a text (or two) and a label a row, is evaluated by cross-validation, as MR is.
    Accuracies under different presets do not compare. The regressions of stsb-trained and sickr-trained are
    SentEval's own way with these sets, under every preset the same.
    """
    from sentemb.evaluation.transfer import PROBING_TASKS, TRANSFER_TASKS

    groups = {"transfer": TRANSFER_TASKS, "probing": PROBING_TASKS}
    chosen = [name for given in split_names(tasks) for name in groups.get(given, (given,))]
    _run(models, ["transfer"], options, tasks=chosen, preset=preset, seeds=split_seeds(seeds))


@grouped
def retrieval(
    models: Systems,
    options: EvaluationOptions,
    sets: Annotated[
        str | None,
        typer.Option(
            help="Sets such as scifact, cisi, xquad-r/de, or folders of your own in BEIR's layout, separated "
            "by commas; the suite's that are there by default."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Of the judgements; test by default, or what there is in its place.")
    ] = None,
    exclude_same_ids: Annotated[
        bool,
        typer.Option(
            "--exclude-same-ids",
            help="A query does not find the document of its own id, as in BEIR; for ArguAna and Quora.",
        ),
    ] = False,
    runs: Annotated[Path | None, typer.Option(help="Folder for what was found, as runs of TREC.")] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="The documents' vectors, as of sentemb encode; of one set and one model."),
    ] = None,
) -> None:
    """Score search on judged queries: graded NDCG@10, MRR@10, MAP, recall, precision and hits.

    All metrics are trec_eval's, over all judged queries: one that nothing was found for counts 0. Encoders
    are searched exactly, with their own prompts for queries and documents; BM25 is SQLite's; hybrid:MODEL
    fuses both, and weighs them by queries that it cuts from the documents.
    """
    from functools import cache, partial

    from sentemb.encoding.shards import ShardFolder
    from sentemb.evaluation.retrieval.named import model_of, searcher_of
    from sentemb.evaluation.runner.run import shared_vectors

    stored = None if vectors is None else ShardFolder(vectors)
    if stored is not None and (sets is None or len(split_names(sets)) != 1):
        raise InputError("--vectors are those of one set", "name it by --sets")
    with ExitStack() as stack:
        # Vectors are shared by MODEL and hybrid:MODEL.
        @cache
        def load(model: str) -> TextEncoder:
            encoder: TextEncoder = stack.enter_context(shared_vectors(options.load(model), options.output))
            return encoder

        _run(
            models,
            ["retrieval"],
            options,
            needed=[model for model in map(model_of, models) if model is not None],
            load=partial(searcher_of, load=load, stored=stored),
            folders=[runs],
            sets=None if sets is None else split_names(sets),
            judged=split,
            exclude_same_ids=exclude_same_ids,
            runs=runs,
            progress=sys.stderr.isatty(),
        )


@grouped
def geometry(
    models: Models,
    options: EvaluationOptions,
    data: Annotated[str, typer.Option("--data", help="Scored pairs: a set's name or a file.")] = "stsb",
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
) -> None:
    """Measure alignment, uniformity, anisotropy and effective rank of encoders, with intervals."""
    _run(models, ["geometry"], options, pairs=data, split=split)


@grouped
def all_suites(
    models: Models,
    options: EvaluationOptions,
    suites: Annotated[
        str, typer.Option(help="Some of these, separated by commas.")
    ] = "sts,multilingual,geometry,transfer,retrieval",
    preset: Preset = "simcse-fast",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Skip data sets that are missing.")
    ] = False,
) -> None:
    """Evaluate encoders on STS, other languages, geometry, transfer tasks and retrieval.

    Each sentence is encoded once.

    Each suite leaves a record in --output. What is recorded there for the same encoder and settings is
    skipped, so the same command resumes an interrupted one. A missing data set ends the command before
    anything is encoded, unless --allow-missing skips it.
    """
    _run(models, split_names(suites), options, allow_missing=allow_missing, preset=preset)


def _prepare(models: Sequence[str], options: EvaluationOptions, *folders: Path | None) -> None:
    """Check what is known of models and folders, before minutes are spent on data and on the first model."""
    from sentemb._files import check_writable
    from sentemb.encoding.resolve import check_address
    from sentemb.modules.loading import check_options

    check_options(options.pooling, options.device)
    for model in models:
        check_address(model, data_dir=options.data_dir)
    for folder in filter(None, (*folders, options.cache_dir)):
        check_writable(folder)


def _systems(models: Sequence[str], load: Callable[[str], Loaded]) -> Iterator[Loaded]:
    # Twice, so that a later one that cannot be loaded does not cost the time of those before it. The scores
    # of two models of one name would be averaged as if they were seeds.
    named: dict[str, str] = {}
    for model in models if len(models) > 1 else ():
        name = load(model).name
        if model == named.get(name):
            raise InputError(f"{model} is named twice", "name each model once")
        if name in named:
            raise InputError(
                f"two models are called {name}: {named[name]} and {model}", "rename the folder of one"
            )
        named[name] = model
    for number, model in enumerate(models, start=1):
        say(f"[{number}/{len(models)}] {model}")
        yield load(model)


def _run(
    models: Sequence[str],
    suites: Sequence[str],
    options: EvaluationOptions,
    *,
    allow_missing: bool = False,
    needed: Sequence[str] | None = None,
    load: Callable[[str], TextEncoder | Searcher] | None = None,
    folders: Sequence[Path | None] = (),
    **of_suites: Any,
) -> None:
    """Evaluate one system after the other, and show them side by side.

    All of them are models, unless `needed` names the models and `load` makes the systems.
    """
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.runner import Options, load_suites, run_suites

    output = options.output
    _prepare(models if needed is None else needed, options, output, *folders)
    checked = Options(data_dir=options.data_dir, check_rows=not options.allow_count_mismatch, **of_suites)
    loaded = load_suites(suites, checked, allow_missing=allow_missing)
    results: list[EvaluationResult] = []
    try:
        for encoder in _systems(models, load or options.load):
            result = run_suites(
                encoder,
                loaded,
                output=output,
                overwrite=options.overwrite,
                command=command_line(),
                announce=say,
            )
            results.append(result)
    except KeyboardInterrupt:
        if output is not None:
            say(f"what was evaluated is in {output}; the same command resumes from there")
        raise
    finally:
        # What was measured before a later model failed, or before Ctrl-C, is shown all the same.
        if results:
            _show(results)
            # Geometry keeps no predictions to compare.
            names = [one.model for one in results] if [*suites] != ["geometry"] else []
            _say_next(names, output)


def _show(results: Sequence[EvaluationResult]) -> None:
    from sentemb.report.results import tables_of

    for table in tables_of([record for result in results for record in result.records.values()]):
        show(table)
        typer.echo()
    if missing := dict.fromkeys(error.name for error in results[0].missing):
        say(f"skipped, since they are missing: {', '.join(missing)}")
    for one in results:
        if one.reused:
            say(f"{one.model}: {', '.join(one.reused)} recorded already, not evaluated again")
        if one.seconds:
            took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one.seconds.items())
            sentences = f"{one.sentences:,} unique sentences; " if one.sentences else ""
            say(f"{one.model}: {sentences}{took}")


def _say_next(names: Sequence[str], output: Path | None) -> None:
    if output is None:
        next_step("the same command with --output FOLDER keeps records to compare and to report")
    elif len(names) > 1:
        next_command("compare", *names, "--records", output)
    else:
        next_command("report", output)
