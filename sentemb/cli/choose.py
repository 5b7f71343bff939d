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
    judged: Annotated[
        str | None, typer.Option(help="In their place, your judged queries: a folder in BEIR's layout.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="In their place, a file of your graded pairs: two texts and a score.")
    ] = None,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    queries: Annotated[
        int | None, typer.Option(min=20, help="Queries of each kind to cut.", show_default="300")
    ] = None,
    documents: Annotated[
        int | None, typer.Option(min=20, help="Documents to search, drawn from yours.", show_default="5000")
    ] = None,
    leaks: Annotated[
        str,
        typer.Option(help="Known sets to look for your texts in: names, sts, transfer, retrieval, none."),
    ] = "sts,retrieval",
    draws: Annotated[int, typer.Option(min=100, help="Resamples and exchanges of queries.")] = 2000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSON file with all numbers, of each two systems too."),
    ] = None,
    overwrite: Overwrite = False,
    markdown: Markdown = False,
) -> None:
    """Rank encoders, bm25 and hybrid:MODEL for your documents, without labels.

    Queries are cut from the documents and are to find what they were cut from. Beside the score stand its
    interval, who cannot be told apart, speed and size, and how well such rankings agreed with true ones.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_json
    from sentemb.encoding.resolve import check_address
    from sentemb.evaluation.choosing import choose as choose_among
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.retrieval.named import model_of
    from sentemb.modules.loading import check_options
    from sentemb.report.choosing import choice_table

    if output is not None:
        refuse_unusable_output(output, [texts, judged, pairs, *systems], cache=options.cache_dir)
        refuse_existing(output, overwrite=overwrite)
    check_options(options.pooling, options.device)
    for model in filter(None, map(model_of, systems)):
        check_address(model, data_dir=options.data_dir)
    with progress_bar() as bar:
        choice = choose_among(
            systems,
            texts,
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
    if choice.trust is not None:
        typer.echo(f"How far to trust this: {choice.trust.sentence()}.")
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
        also_command(*adapt, comment="may make this encoder better for your documents, without labels")
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
