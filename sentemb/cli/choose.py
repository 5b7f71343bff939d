"""`sentemb choose`: which encoder is best for one's own documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb._commands import format_command
from sentemb.cli.console import also_command, next_command, next_step, progress_bar, propose_fit, say, show
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    DOCUMENTS,
    Candidates,
    EncoderOptions,
    Markdown,
    Overwrite,
    Seed,
    TextColumn,
    TitleColumn,
    given_data_dir,
    given_options,
    grouped,
    split_names,
)

if TYPE_CHECKING:
    from sentemb.evaluation.choosing import Choice

_EXAMPLE_LENGTH = 100


@grouped
def choose(
    systems: Candidates,
    options: EncoderOptions,
    texts: Annotated[
        str | None,
        typer.Option(help=DOCUMENTS),
    ] = None,
    query_log: Annotated[
        str | None,
        typer.Option(
            help="File with real queries of your users, one per line. Generated queries are weighted to "
            "resemble them."
        ),
    ] = None,
    judged: Annotated[
        str | None,
        typer.Option(
            help="Folder in BEIR layout with queries and qrels. They update the prediction from --texts, or "
            "rank the systems on their own."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="File of scored pairs (two texts and a score per row), to rank by similarity instead of "
            "search."
        ),
    ] = None,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    queries: Annotated[
        int | None,
        typer.Option(min=20, help="Number of queries to generate of each kind.", show_default="300"),
    ] = None,
    documents: Annotated[
        int | None,
        typer.Option(
            min=20, help="Number of your documents to search: a random sample.", show_default="5000"
        ),
    ] = None,
    leaks: Annotated[
        str,
        typer.Option(
            help="Public test sets to check for overlap with your texts: names of sets, sts, transfer, "
            "retrieval or none."
        ),
    ] = "sts,retrieval",
    draws: Annotated[
        int,
        typer.Option(
            min=100, help="Number of bootstrap resamples of queries or pairs, for tests and intervals."
        ),
    ] = 2000,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Confidence level of the intervals.", show_default="0.8 for predictions, 0.95 otherwise"
        ),
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="JSON file with all numbers, including the comparison of every two systems.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    markdown: Markdown = False,
) -> None:
    """Rank encoders, bm25 and hybrid:MODEL for your documents, without labels.

    sentemb generates queries from your documents, scores every system on them, and predicts the differences
    on real queries, with intervals. 20 to 50 queries with qrels (--judged) make the prediction more precise.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_json
    from sentemb.encoding.resolve import check_address
    from sentemb.evaluation.choosing import choose as choose_among
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.retrieval.named import model_of
    from sentemb.modules.loading import check_options
    from sentemb.report.choosing import choice_table

    if output is not None:
        refuse_unusable_output(output, [texts, query_log, judged, pairs, *systems], cache=options.cache_dir)
        refuse_existing(output, overwrite=overwrite)
    check_options(options.pooling, options.device)
    for model in filter(None, map(model_of, systems)):
        check_address(model, data_dir=options.data_dir)
    with progress_bar() as bar:
        choice = choose_among(
            systems,
            texts,
            query_log=query_log,
            judged=judged,
            pairs=pairs,
            text_column=text_column,
            title_column=title_column,
            count=queries,
            most=documents,
            seed=seed,
            draws=draws,
            confidence=confidence,
            leaks=() if leaks == "none" else split_names(leaks),
            load=options.load,
            data_dir=options.data_dir,
            command=command_line(),
            progress=bar,
        )
    show(choice_table(choice), markdown=markdown)
    typer.echo()
    if choice.leaks is not None:
        say(choice.leaks.sentence())
        for leak in choice.leaks.leaks:
            say(f"  {leak.name}: {leak.examples[0][:_EXAMPLE_LENGTH]}")
    if choice.reliability is not None:
        typer.echo(f"Reliability: {choice.reliability.sentence()}.")
    if choice.advice is not None:
        typer.echo(f"Evidence: {choice.advice.sentence()}.")
    typer.echo(f"Verdict: {choice.verdict()}.")
    if output is not None:  # last: a disk that is full costs no verdict
        write_json(output, choice.to_json())
    source = judged if texts is None and judged is not None and Path(judged).is_dir() else texts
    _propose(choice, source, (text_column, title_column), options)


def _propose(
    choice: Choice, source: str | None, columns: tuple[str | None, str | None], options: EncoderOptions
) -> None:
    """Print the commands that use the best system, and before them those that may find a better one."""
    from sentemb.adaptation.held_out import FEWEST_DOCUMENTS
    from sentemb.evaluation.retrieval.hybrid import PREFIXES
    from sentemb.evaluation.retrieval.named import model_of
    from sentemb.evaluation.retrieval.searchers import BM25

    best = choice.best.given
    models = [model_of(best), *(model_of(one.given) for one in choice.candidates)]
    model = next(filter(None, models), None)
    if source is None:
        next_command("serve", model or DEFAULT_ENCODER)
        return
    given = given_options(
        {
            "--text-column": (columns[0], None),
            "--title-column": (columns[1], None),
            "--data-dir": (given_data_dir(options.data_dir), None),
            "--pooling": (options.pooling, None),
        }
    )
    # Word vectors, which are a file, are not adapted.
    if model is not None and not Path(model).is_file() and choice.documents >= FEWEST_DOCUMENTS:
        adapt = ("adapt", source, *given, "--base", model, "--output", "FOLDER")
        also_command(*adapt, comment="may improve this encoder for your documents, without labels")
    mode = "keyword" if best == BM25 else "hybrid" if best.startswith(tuple(PREFIXES)) else "dense"
    equal = [one for one in choice.candidates if one.place == choice.best.place]
    if mode == "hybrid" or len(equal) > 1:
        propose_fit("index")
    length = {"--max-length": (options.max_length, None)}
    named = [] if model is None or mode == "keyword" else [*given_options(length), "--model", model]
    search = given_options({"--mode": (mode, "dense")})
    next_step(
        f"{format_command('index', 'build', source, *given, *named, '--output', 'index')} && "
        f"{format_command('index', 'search', 'index', 'your question', *search)}"
    )
