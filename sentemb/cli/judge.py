"""`sentemb judge`: which of two systems finds the better documents, judged blindly at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, printable, say
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb import SearchIndex
    from sentemb.evaluation.judging import Answer, Judgements
    from sentemb.search.searching import Mode

_MODES: dict[str, Mode] = {"dense": "dense", "keyword": "keyword", "bm25": "keyword", "hybrid": "hybrid"}
_KEYS: dict[str, Answer] = {"1": "left", "2": "right", "=": "tie", "s": "skip"}
_MOST = 1000  # queries, of which a random sample is judged


class _Found(NamedTuple):
    id: str
    text: str


class _Judge(opt.EncoderOptions):
    index: Annotated[str, typer.Argument()]
    """Index folder, or lancedb:URI."""
    systems: Annotated[tuple[str, str], typer.Option()]
    """Two systems: dense, keyword (bm25) or hybrid search of the index; another index of the same documents;
    or a model, which encodes the documents of the index, also hybrid:MODEL."""
    queries: Path | None = None
    """File with queries, such as a text file with one per line. By default they are generated from the
    documents."""
    output: Annotated[Path, typer.Option("--output", "-o", callback=opt.local_output)] = Path(
        "judgements.jsonl"
    )
    """File of the judgements. Run the command again to resume."""
    k: int = Field(5, ge=1, le=50)
    """Number of documents to show of each system."""
    seed: opt.Seed = 0


@opt.grouped
def judge(options: _Judge) -> None:
    """Judge which of two systems finds the better documents, without knowing which is which.

    The command says when enough queries are judged: it may be stopped at any time, and the verdict holds.
    Keys: 1 or 2 for the better side, = for a tie, s to skip the query, q to stop. Finish each with Enter.
    """
    import sentemb
    from sentemb.evaluation.judging import Judgements

    first, second = options.systems
    if _MODES.get(first, first) == _MODES.get(second, second):
        raise InputError(f"both systems are {first}", "name two systems, such as dense hybrid")
    index = sentemb.SearchIndex.open(options.index)
    compared = {"index": options.index, "systems": [first, second], "k": options.k}
    judgements = Judgements(options.output, compared)
    if judgements.standing.decided is None:
        queries = _read_queries(options, index)
        found = [_search(options, index, name, queries) for name in options.systems]
        rows = zip(queries, *found, strict=True)
        for query, *own in rows:
            if query not in judgements and not _ask(query, own, judgements, options.seed):
                break
            if judgements.standing.decided is not None:
                break
        else:
            say("all queries are judged")
            typer.echo(judgements.standing.sentence(options.systems) + ".")
            next_step("judge more queries with another --queries file and the same --output")
            return
    standing = judgements.standing
    if standing.decided is None:
        say(f"{standing.judged:,} judged in {options.output}: not enough yet; the same command resumes")
        return
    typer.echo(f"Enough: {standing.sentence(options.systems)}.")
    next_command("index", "search", options.index, "your question")


def _read_queries(options: _Judge, index: SearchIndex) -> list[str]:
    """Return a random order of the queries, so that those judged first are a sample of all."""
    from sentemb.data.files import read_file, source_at, usual_columns
    from sentemb.data.generated_queries import CROP, SENTENCE, TOPIC, generate_queries

    if options.queries is not None:
        source = source_at(options.queries)
        (column,) = usual_columns(source, [("text",), ("query",), ("question",)])
        texts = [row.filled(column).strip() for row in read_file(source)]
    else:
        sets = {one.name: one for one in generate_queries(index.documents(), kinds=(TOPIC, SENTENCE, CROP))}
        chosen = next((sets[kind] for kind in (TOPIC, SENTENCE, CROP) if kind in sets), None)
        if chosen is None:
            raise InputError(
                f"{options.index} has too few documents to generate queries from",
                "name a file with --queries",
            )
        say(f"the queries are generated ({chosen.name}); those of your users tell more: --queries FILE")
        texts = chosen.queries
    unique = list(dict.fromkeys(texts))
    order = np.random.default_rng(options.seed).permutation(len(unique))[:_MOST]
    return [unique[row] for row in order]


def _search(options: _Judge, index: SearchIndex, name: str, queries: Sequence[str]) -> list[list[_Found]]:
    """Return what a system finds for each query."""
    import sentemb
    from sentemb.data.retrieval import RetrievalSet
    from sentemb.evaluation.retrieval.naming import is_run, searcher_of

    mode = _MODES.get(name)
    if mode is None and (Path(name) / "manifest.json").is_file():
        index, mode = sentemb.SearchIndex.open(name), "dense"
    if mode is not None:
        hits = index.search(queries, options.k, mode=mode)
        return [[_Found(str(hit.id), hit.text) for hit in own] for own in hits]
    if is_run(name):
        raise InputError(f"{name} is a saved run, which has no documents", "name a model, dense or hybrid")
    options.check([name.removeprefix("hybrid:")])
    documents = index.documents()
    data = RetrievalSet(
        name="index",
        split="all",
        document_ids=[str(one.id) for one in documents],
        documents=[one.whole for one in documents],
        query_ids=list(map(str, range(len(queries)))),
        queries=list(queries),
        judged=np.empty((0, 3), dtype=np.int64),
        language=index.manifest.language,
    )
    return [
        [_Found(data.document_ids[row], data.documents[row]) for row in own.documents]
        for own in searcher_of(name, options.load).search(data, options.k)
    ]


def _ask(query: str, found: Sequence[Sequence[_Found]], judgements: Judgements, seed: int) -> bool:
    """Show what both systems find for a query, and keep the answer; return False to stop."""
    ids = [[one.id for one in own] for own in found]
    # The side depends on the query alone, so it is the same after a break.
    swapped = bool(np.random.default_rng([seed, *query.encode()]).integers(2))
    if ids[0] == ids[1]:
        judgements.add(query, "same", second_is_left=swapped, found=ids)
        return True
    _show(query, found[::-1] if swapped else found, judgements.standing.judged)
    while True:
        typer.echo("better: 1 or 2, = tie, s skip, q stop: ", nl=False)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            line = ""
        key = line.strip().lower()
        if not line or key == "q":
            typer.echo()
            return False
        if (answer := _KEYS.get(key)) is not None:
            judgements.add(query, answer, second_is_left=swapped, found=ids)
            return True


def _show(query: str, sides: Sequence[Sequence[_Found]], judged: int) -> None:
    """Print both lists of documents side by side."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sentemb.search.keywords import beginning

    table = Table("1", "2", title=Text(f"{judged + 1}: {printable(query)}"), show_lines=True, expand=True)
    for place in range(max(map(len, sides))):
        cells = (beginning(own[place].text) if place < len(own) else "" for own in sides)
        table.add_row(*(Text(printable(" ".join(cell.split()))) for cell in cells))
    Console().print(table)
