"""`sentemb eval`: encoders on scored pairs, transfer tasks, geometry and search; each leaves a record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sentemb._files import check_writable
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, say, show
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder
    from sentemb.evaluation.retrieval import Searcher
    from sentemb.evaluation.runner import EvaluationResult
    from sentemb.evaluation.schema import Record


class _Evaluation(opt.EncoderOptions):
    """Options of all verbs."""

    models: opt.Models
    output: opt.Output = None
    overwrite: opt.Overwrite = False
    allow_count_mismatch: opt.AllowCountMismatch = False


class _Sts(_Evaluation):
    suite: Literal["sts", "multilingual"] = "sts"
    """sts: STS12 to STS16, STS-B and SICK-R. multilingual: the seven tracks of SemEval-2017."""
    sets: str | None = None
    """Data sets such as sts12, stsb, sickr-mteb, sts14-es, sts17, sts22-de-en, or your own files of scored
    pairs, separated by commas. The default is the sets of the suite."""
    protocol: Literal["all", "mean", "wmean"] | None = None
    """How to combine the subsets of a set: all concatenates them, mean averages their scores, wmean weights
    the mean by size. The default depends on the suite."""
    measure: Literal["spearman", "pearson"] | None = None
    """Correlation to show. The default depends on the suite."""
    seed: int | None = None
    """Seed with which the model was trained. Read from the folder's name if it is NAME-seed-N."""


@opt.grouped
def sts(options: _Sts) -> None:
    """Score encoders by the correlation of cosine similarities with gold scores.

    The pairs are STS12 to STS16, STS-B and SICK-R, sets in other languages, or your own files with two texts
    and a score per row.
    """
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.sts import evaluate_pairs, load_sets
    from sentemb.evaluation.suites import get_suite
    from sentemb.report.results import sts_table

    output = options.output
    _check(options, options.models)
    suite = get_suite(options.suite)
    names = suite.sets if options.sets is None else opt.split_names(options.sets)
    pairs = load_sets(names, data_dir=options.data_dir, check_rows=not options.allow_count_mismatch)
    how: Any = {"suite": suite, "folder": output, "command": command_line(), "progress": sys.stderr.isatty()}

    def evaluate(encoder: TextEncoder) -> Record:
        record = evaluate_pairs(encoder, pairs, **how, **options.values("seed", "overwrite"))
        counts = f"{record.details['sentences']:,} sentences, {record.details['unique']:,} unique,"
        say(f"  {counts} encoded in {record.environment.seconds['encode']:.1f} s")
        if output is not None:
            say(f"  {output / record.file_name}")
        return record

    def print_table(records: Sequence[Record]) -> None:
        show(sts_table(records, **options.values("protocol", "measure"), seeds_apart=True))

    _evaluate_each(options, options.load, evaluate, print_table)


class _Transfer(_Evaluation):
    tasks: str = "transfer"
    """Tasks, separated by commas: mr, cr, subj, mpqa, sst2, trec, mrpc, sst5, sick-e, stsb-trained,
    sickr-trained, a probing task, or your own labelled files. `transfer` means the papers' seven, `probing`
    all ten probing tasks."""
    preset: str = "simcse"
    """Classifier setup: sg-bert or simcse as in the papers; simcse-fast or logreg."""
    seeds: str = "1111"
    """Seeds of the classifiers, such as 1,2,3. Each gets its own record."""


@opt.grouped
def transfer(options: _Transfer) -> None:
    """Train SentEval's classifiers on frozen sentence vectors (SentEval's transfer and probing tasks).

    Your own file has one or two texts and a label per row, and is evaluated by cross-validation, as MR is.
    Accuracies under different presets are not comparable. stsb-trained and sickr-trained are SentEval's
    regressions on these sets; they are the same under every preset.
    """
    from sentemb.evaluation.transfer import PROBING_TASKS, TRANSFER_TASKS

    groups = {"transfer": TRANSFER_TASKS, "probing": PROBING_TASKS}
    tasks = [name for given in opt.split_names(options.tasks) for name in groups.get(given, (given,))]
    seeds = opt.split_seeds(options.seeds)
    _run(options, ["transfer"], tasks=tasks, preset=options.preset, seeds=seeds)


class _Retrieval(_Evaluation):
    models: Annotated[list[str], typer.Argument(autocompletion=opt.bundled_models)]
    """Model: folder, hub id, bundled model or word-vector file in GloVe format. Also bm25, hybrid:MODEL,
    rerank:FIRST+CROSS-ENCODER, endpoint:URL#MODEL (key in OPENAI_API_KEY), a TREC run file (.trec), or a
    folder with runs SET.trec."""
    sets: str | None = None
    """Data sets such as scifact, cisi, xquad-r/de, or your own folders in BEIR layout, separated by commas.
    The default is all sets of the suite that are in the data folder."""
    split: str | None = None
    """Split of the qrels. The default is test, or the only one."""
    exclude_same_ids: bool = False
    """Exclude the document with the query's own id from the results, as BEIR does for ArguAna and Quora."""
    runs: Path | None = None
    """Folder for the results as TREC run files."""
    vectors: Path | None = None
    """Folder of `sentemb encode` with the documents' vectors. Requires a single set and a single model."""


@opt.grouped
def retrieval(options: _Retrieval) -> None:
    """Score search on queries with qrels: graded NDCG@10, MRR@10, MAP, recall, precision and hits.

    All metrics follow trec_eval. A query without results counts as 0. Encoders are searched exactly, with
    their own prompts for queries and documents. BM25 is SQLite's. hybrid:MODEL fuses both; its weight is
    fitted on queries that are generated from the documents. rerank:FIRST+CROSS-ENCODER scores the first 100
    documents of another system, and the table has its milliseconds per query.
    """
    from sentemb.encoding.shards import ShardFolder
    from sentemb.evaluation.retrieval.naming import model_of, searcher_of
    from sentemb.evaluation.runner import shared_vectors

    sets = None if options.sets is None else opt.split_names(options.sets)
    stored = None if options.vectors is None else ShardFolder(options.vectors)
    if stored is not None and (sets is None or len(sets) != 1):
        raise InputError("--vectors works with a single data set", "name it with --sets")
    with ExitStack() as stack:

        @cache  # vectors are shared by MODEL and hybrid:MODEL
        def load(model: str) -> TextEncoder:
            encoder: TextEncoder = stack.enter_context(shared_vectors(options.load(model), options.output))
            return encoder

        _run(
            options,
            ["retrieval"],
            needed=[model for model in map(model_of, options.models) if model is not None],
            load=partial(searcher_of, load=load, stored=stored, device=options.device),
            folders=[options.runs],
            sets=sets,
            judged=options.split,
            **options.values("exclude_same_ids", "runs"),
            progress=sys.stderr.isatty(),
        )


class _Geometry(_Evaluation):
    data: str = "stsb"
    """Scored pairs: name of a data set, or a file."""
    split: str = "dev"
    """Split of the data set."""


@opt.grouped
def geometry(options: _Geometry) -> None:
    """Measure alignment, uniformity, anisotropy and effective rank of encoders, with intervals."""
    _run(options, ["geometry"], pairs=options.data, split=options.split)


class _All(_Evaluation):
    suites: str = "sts,multilingual,geometry,transfer,retrieval"
    """Suites to run, separated by commas."""
    preset: str = "simcse-fast"
    """Classifier setup: sg-bert or simcse as in the papers; simcse-fast or logreg."""
    allow_missing: bool = False
    """Skip data sets that are not available."""


@opt.grouped
def all_suites(options: _All) -> None:
    """Evaluate encoders on STS, other languages, geometry, transfer tasks and retrieval.

    Each sentence is encoded once. Each suite writes a record to --output. A suite that is already recorded
    there for the same encoder and settings is skipped, so running the command again resumes it. If a data set
    is missing, the command stops before anything is encoded, unless you pass --allow-missing.
    """
    _run(options, opt.split_names(options.suites), **options.values("allow_missing", "preset"))


def _check(options: _Evaluation, models: Sequence[str], *folders: Path | None) -> None:
    options.check(models)
    for folder in filter(None, (options.output, *folders, options.cache_dir)):
        check_writable(folder)


def _run(
    options: _Evaluation,
    suites: Sequence[str],
    *,
    allow_missing: bool = False,
    needed: Sequence[str] | None = None,
    load: Callable[[str], TextEncoder | Searcher] | None = None,
    folders: Sequence[Path | None] = (),
    **of_suites: Any,
) -> None:
    """Evaluate systems on suites: models, unless `needed` names these and `load` makes the systems."""
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.runner import Options, load_suites, run_suites

    _check(options, options.models if needed is None else needed, *folders)
    checked = Options(data_dir=options.data_dir, check_rows=not options.allow_count_mismatch, **of_suites)
    loaded = load_suites(suites, checked, allow_missing=allow_missing)
    how: Any = {**options.values("output", "overwrite"), "command": command_line(), "announce": say}
    # Geometry keeps no predictions to compare.
    comparable = [*suites] != ["geometry"]
    evaluate = partial(run_suites, loaded=loaded, **how)
    _evaluate_each(options, load or options.load, evaluate, _show_results, comparable=comparable)


def _evaluate_each(
    options: _Evaluation,
    load: Callable[[str], Any],
    evaluate: Callable[[Any], Any],
    show_results: Callable[[Sequence[Any]], None],
    *,
    comparable: bool = True,
) -> None:
    """Evaluate one system after the other, show the results side by side, and say what to do next."""
    models, output = options.models, options.output
    results: list[Any] = []
    try:
        # All are loaded first, so that a later one that cannot be loaded does not cost the time of those
        # before it. The scores of two models of one name would be averaged as if they were seeds.
        named: dict[str, str] = {}
        for model in models if len(models) > 1 else ():
            name = load(model).name
            if name in named:
                why = f"{named[name]} and {model} are both called {name}"
                raise InputError(why, "list each model once, and rename one of two folders of one name")
            named[name] = model
        for number, model in enumerate(models, start=1):
            say(f"[{number}/{len(models)}] {model}")
            results.append(evaluate(load(model)))
    except KeyboardInterrupt:
        if output is not None:
            say(f"finished records are in {output}; run the same command again to resume")
        raise
    finally:
        # What was measured before a later model failed, or before Ctrl-C, is shown all the same.
        if results:
            show_results(results)
            if output is None:
                next_step("run the command again with --output FOLDER to save records that you can compare")
            elif comparable and len(results) > 1:
                next_command("compare", *(one.model for one in results), "--records", output)
            else:
                next_command("report", output)


def _show_results(results: Sequence[EvaluationResult]) -> None:
    from sentemb.report.results import tables_of

    for table in tables_of([record for result in results for record in result.records.values()]):
        show(table)
        typer.echo()
    if missing := dict.fromkeys(error.name for error in results[0].missing):
        say(f"skipped, because they are not available: {', '.join(missing)}")
    for one in results:
        if one.reused:
            say(f"{one.model}: {', '.join(one.reused)} already recorded, skipped")
        if one.seconds:
            took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one.seconds.items())
            sentences = f"{one.sentences:,} unique sentences; " if one.sentences else ""
            say(f"{one.model}: {sentences}{took}")
