"""`sentemb choose`: which encoder is best for one's own documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import also_command, format_command, next_command, next_step, progress_bar, say, show

if TYPE_CHECKING:
    from sentemb.evaluation.choosing import Choice


class _Options(opt.EncoderOptions):
    systems: Annotated[list[str], typer.Argument(autocompletion=opt.bundled_models)]
    """Model: folder, hub id, bundled model or word-vector file in GloVe format. Also bm25, hybrid:MODEL,
    hybrid-rrf:MODEL, rerank:FIRST+CROSS-ENCODER, endpoint:URL#MODEL (key in OPENAI_API_KEY), and with
    --judged hybrid-fitted:MODEL. With --pairs only encoders."""
    texts: str | None = Field(None, description=opt.DOCUMENTS)
    query_log: str | None = None
    """File with real queries of your users, one per line. Generated queries are weighted to resemble them."""
    judged: str | None = None
    """Folder in BEIR layout with queries and qrels. They update the prediction from --texts, or rank the
    systems on their own."""
    pairs: Path | None = None
    """File of scored pairs (two texts and a score per row), to rank by similarity instead of search."""
    text_column: opt.TextColumn = None
    title_column: opt.TitleColumn = None
    queries: int | None = Field(None, ge=20)
    """Number of queries to generate of each kind. Default: 300."""
    documents: int | None = Field(None, ge=20)
    """Number of your documents to search: a random sample. Default: 5000."""
    leaks: str = "sts,retrieval"
    """Public test sets to check for overlap with your texts: names of sets, sts, transfer, retrieval or
    none."""
    draws: int = Field(2000, ge=100)
    """Number of bootstrap resamples of queries or pairs, for tests and intervals."""
    confidence: float | None = None
    """Confidence level of the intervals. Default: 0.8 for predictions, 0.95 otherwise."""
    seed: opt.Seed = 0
    output: opt.NewFile = None
    """JSON file with all numbers, including the comparison of every two systems."""
    overwrite: opt.Overwrite = False


@opt.grouped
def choose(options: _Options) -> None:
    """Rank encoders, bm25 and hybrid:MODEL for your documents, without labels.

    sentemb generates queries from your documents, scores every system on them, and predicts the differences
    on real queries, with intervals. 20 to 50 queries with qrels (--judged) make the prediction more precise.
    """
    from sentemb._files import write_json
    from sentemb.evaluation.choosing import choose as choose_among
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.retrieval.naming import model_of
    from sentemb.report.results import choice_table

    options.check_output(options.texts, options.query_log, options.judged, options.pairs, *options.systems)
    options.check(filter(None, map(model_of, options.systems)))
    reading = options.values("query_log", "judged", "pairs", "text_column", "title_column", "data_dir")
    with progress_bar() as bar:
        choice = choose_among(
            options.systems,
            options.texts,
            **reading,
            **options.values("seed", "draws", "confidence"),
            count=options.queries,
            most=options.documents,
            leaks=() if options.leaks == "none" else opt.split_names(options.leaks),
            load=options.load,
            device=options.device,
            command=command_line(),
            progress=bar,
        )
    show(choice_table(choice))
    typer.echo()
    if choice.leaks is not None:
        say(choice.leaks.sentence())
        for leak in choice.leaks.leaks:
            say(f"  {leak.name}: {leak.examples[0][:100]}")
    if choice.reliability is not None:
        typer.echo(f"Reliability: {choice.reliability.sentence()}.")
    if choice.advice is not None:
        typer.echo(f"Evidence: {choice.advice.sentence()}.")
    typer.echo(f"Verdict: {choice.verdict()}.")
    if options.output is not None:  # last: a disk that is full costs no verdict
        write_json(options.output, choice.to_json())
    _propose(choice, options)


def _propose(choice: Choice, options: _Options) -> None:
    """Print the commands that use the best system, and before them those that may find a better one."""
    from sentemb._uris import is_endpoint
    from sentemb.adaptation.held_out import FEWEST_DOCUMENTS
    from sentemb.cli.index import propose_fit
    from sentemb.evaluation.retrieval.naming import first_stage, model_of
    from sentemb.evaluation.retrieval.searchers import BM25, PREFIXES

    judged = options.judged if options.judged and Path(options.judged).is_dir() else None
    source, best = options.texts or judged, first_stage(choice.best.given)
    models = map(model_of, (best, *(one.given for one in choice.candidates)))
    model = next(filter(None, models), None)
    if source is None:
        next_command("serve", model or opt.DEFAULT_ENCODER)
        return
    reading = options.flags("text_column", "title_column", "data_dir", "pooling")
    # Word vectors, which are a file, are not adapted, nor what an endpoint keeps for itself.
    is_ours = model is not None and not Path(model).is_file() and not is_endpoint(model)
    if model is not None and is_ours and choice.documents >= FEWEST_DOCUMENTS:
        adapt = ("adapt", source, *reading, "--base", model, "--output", "FOLDER")
        also_command(*adapt, comment="may improve this encoder for your documents, without labels")
    mode = "keyword" if best == BM25 else "hybrid" if best.startswith(tuple(PREFIXES)) else None
    if mode == "hybrid" or sum(one.place == choice.best.place for one in choice.candidates) > 1:
        propose_fit("index")
    named = [] if model is None or mode == "keyword" else [*options.flags("max_length"), "--model", model]
    build = format_command("index", "build", source, *reading, *named, "--output", "index")
    search = format_command("index", "search", "index", "your question", *opt.flags(mode=mode))
    next_step(f"{build} && {search}")
