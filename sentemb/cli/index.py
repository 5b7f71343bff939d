"""`sentemb index search` and `info`; and what all verbs of an index share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_command, say, show
from sentemb.cli.options import (
    AsJson,
)
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.search import Hit, Manifest
    from sentemb.search.calibration import Calibration
    from sentemb.search.manifest import EncoderFacts

IndexFolder = Annotated[Path, typer.Argument(help="Index folder.")]
IndexPlace = Annotated[str, typer.Argument(help="Index folder, or lancedb:URI.")]
NewKind = Annotated[
    Literal["auto", "flat", "hnsw", "ivfpq"] | None,
    typer.Option(help="Kind of the vector index. auto chooses by size."),
]
NewBudget = Annotated[str | None, typer.Option(help="Maximum memory of the index, such as 500MB.")]
STAGES = {
    "read": "reading documents",
    "resume": "looking up encoded texts",
    "encode": "encoding",
    "train": "training the vector index",
    "terms": "indexing keywords",
    "index": "indexing",
    "tune": "measuring recall",
    "weigh": "fitting the hybrid weight",
}
COMPACTING = STAGES | {"encode": "copying vectors", "resume": "copying vectors"}
TruncateOption = Annotated[
    Literal["split", "warn", "error"],
    typer.Option(
        help="Texts longer than the model's maximum length: split them into chunks, truncate them with a "
        "warning, or stop with an error."
    ),
]
_FATES = {
    "split": "new long texts are split into chunks",
    "warn": "new long texts are truncated with a warning",
    "error": "new long texts are an error",
}
_EFFORT = {"flat": "", "hnsw": ", efSearch {}", "ivfpq": ", nprobe {}"}


def search(
    folder: IndexPlace,
    query: Annotated[
        str | None,
        typer.Argument(help="Query. By default queries are read from standard input, one per line."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of hits per query.")] = 10,
    queries: Annotated[Path | None, typer.Option(help="File with queries, one per line.")] = None,
    mode: Annotated[
        Literal["dense", "keyword", "hybrid"],
        typer.Option(help="Search by vectors (dense), by keywords (BM25) or by both (hybrid)."),
    ] = "dense",
    min_score: Annotated[
        str | None,
        typer.Option(
            help="Minimum score of a hit, such as 0.5. A percentile such as 99.2% means: more similar than "
            "99.2% of random pairs of texts."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only return documents with this metadata, such as year>=2020 or lang=en. Repeat for "
            "several conditions."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Encoder of the index, if its folder has moved.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best documents for a query."""
    from sentemb.search import SearchIndex
    from sentemb.search.where import read_where

    texts = _queries(query, queries)
    conditions = read_where(where) if where else None
    index = SearchIndex.open(folder, None if mode == "keyword" else model)
    found = index.search(texts, k, mode=mode, min_score=min_score, where=conditions)
    calibration = index.manifest.calibration if mode == "dense" else None
    for text, hits in zip(texts, found, strict=True):
        if as_json:
            answer = {"query": text, "hits": [asdict(hit) for hit in hits]}
            typer.echo(json.dumps(answer, ensure_ascii=False))
        else:
            _show_hits(text, hits, calibration)


def info(place: IndexPlace, as_json: AsJson = False) -> None:
    """Show the contents and settings of an index, after verifying all checksums."""
    from sentemb.search import SearchIndex

    index = SearchIndex.open(place)
    if is_in_lancedb(place):
        from sentemb.cli.index_move import show_table

        show_table(index, as_json=as_json)
        return
    folder, counts = Path(place), index.info()
    pays = counts["compaction_pays"]
    if as_json:
        facts = json.loads(index.manifest.dump(folder.absolute()))
        typer.echo(json.dumps(facts | counts, indent=2))
        return
    show_facts(folder, index.manifest, written=counts["written"], deleted=counts["deleted"])
    if pays:
        next_command("index", "compact", folder)


def is_in_lancedb(place: str) -> bool:
    """Return whether an index is in LanceDB."""
    return place.startswith("lancedb:")


def _queries(query: str | None, file: Path | None) -> list[str]:
    if query is not None and file is not None:
        raise InputError("a query and --queries cannot be combined", "pass one of them")
    return [query] if query is not None else read_lines(file, "query", "--queries")


def read_lines(file: Path | None, what: str, option: str) -> list[str]:
    """The lines of a file or of what is piped in, without blank ones."""
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise InputError(
            f"the {what} is missing", f"pass one, name a file with {option}, or pipe lines to standard input"
        )
    try:
        if file is not None and (file.is_block_device() or file.is_char_device()):
            raise InputError(f"{file} is a device, not a file", "name a text file")
        content = sys.stdin.buffer.read() if file is None else file.read_bytes()
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file or 'standard input'} is not UTF-8: {error}", "convert it to UTF-8") from None
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{file or 'standard input'} is empty", f"write one {what} per line")
    return texts


def as_integer(text: str) -> list[int]:
    """The integer that a text is, in a list, or none."""
    try:
        number = int(text)
    except ValueError:
        return []
    return [number] if str(number) == text and -(2**63) <= number < 2**63 else []


def by_stage(
    bar: Callable[[str, int, int], None], names: Mapping[str, str] = STAGES
) -> Callable[[str, int, int], None]:
    """Call stages by their names on a bar, and say what was resumed, on a terminal or not."""
    resumed = ""

    def report(stage: str, done: int, total: int) -> None:
        nonlocal resumed
        if stage == "resume":
            resumed = f"resuming: {done:,} of {total:,} texts were already encoded"
        elif resumed:
            say(resumed)
            resumed = ""
        bar(names[stage], done, total)

    return report


def show_facts(folder: Path, manifest: Manifest, *, written: int = 0, deleted: int = 0) -> None:
    """Print what is known of an index."""
    from sentemb.report.table import Table
    from sentemb.search.folder import bytes_on_disk
    from sentemb.search.plan import format_bytes

    recall = manifest.recall
    found = "not measured: too few vectors" if recall.at_10 is None else f"{recall.at_10:.3f}"
    if manifest.kind == "flat":
        found += " (exact search)"
    elif recall.at_10 is not None:
        found += (
            f" on {recall.queries:,} held-out queries, {recall.queries_per_second:,.0f} queries/s in a batch"
        )
    if written or deleted:
        found += f"; since then {written:,} vectors were added and {deleted:,} deleted"
    size = bytes_on_disk(folder)
    encoder = manifest.encoder
    facts = {
        "documents": f"{manifest.documents:,}; {manifest.skipped:,} blank ones were skipped",
        "long texts": _long_texts(manifest),
        "vectors": f"{manifest.vectors:,} of {manifest.dimension} dimensions, one per document or chunk",
        "encoder": f"{encoder.name} ({encoder.fingerprint[:12]}), {manifest.metric}",
        "prompts": describe_roles(manifest.encoder),
        "kind": f"{manifest.factory}{_EFFORT[manifest.kind].format(manifest.effort)}{_ranking(manifest)}",
        "chosen": manifest.reason,
        "recall@10": found,
        "keywords": _words(manifest.language),
        "hybrid": manifest.hybrid.reason()
        if manifest.hybrid
        else "weights keyword and dense search equally; fit the weight with `sentemb index fit`",
        "percentiles": _describe(manifest.calibration),
        "size": f"{format_bytes(size)} on disk, {manifest.bytes_per_vector:,.0f} bytes per vector",
        "built": ", ".join((manifest.created, *map(" ".join, manifest.versions.items()))),
    }
    show(Table("", ("index", str(folder)), tuple(facts.items()), names=2))


def describe_roles(facts: EncoderFacts) -> str:
    """Say in a line how an index treats queries and documents."""
    prompts = facts.details.get("prompts", {})
    given = [f"{role} {prompts[role]!r}" for role in ("query", "document") if prompts.get(role)]
    routes = ["separate routes of the model for queries and documents"] if facts.details.get("routes") else []
    return ", ".join(given + routes) or "none"


def _long_texts(manifest: Manifest) -> str:
    """What became of texts that are longer than the model reads, in a line."""
    if not manifest.chunked and not manifest.truncated:
        return f"none; {_FATES[manifest.truncate]}"
    counts = ((manifest.chunked, "in chunks"), (manifest.truncated, "truncated"))
    parts = [f"{count:,} document{'s' * (count != 1)} {what}" for count, what in counts if count]
    return f"{', '.join(parts)}; {_FATES[manifest.truncate]}"


def _ranking(manifest: Manifest) -> str:
    """Return what ranks the candidates of codes, where it is not the codes."""
    if not manifest.rescored:
        return ""
    found = f"; for 10 hits, the best {manifest.rescored} candidates are ranked by "
    return found + ("their vectors" if manifest.keeps_vectors else "their texts, which are encoded again")


def _words(language: str) -> str:
    """Return how texts are turned into words, in a line."""
    if language == "und":
        return "words, without rules of a language"
    return f"words, with the rules of {language}"


def _describe(calibration: Calibration | None) -> str:
    """What scores mean, in a line."""
    if calibration is None:
        return "not available: there were too few texts"
    points = ", ".join(
        f"{percentile}% score below {calibration.score(percentile):.3f}" for percentile in (50, 90, 99)
    )
    return f"of {calibration.pairs:,} random pairs of texts, {points}; resolved up to {calibration.most:g}%"


def _show_hits(query: str, hits: list[Hit], calibration: Calibration | None) -> None:
    from sentemb.report.table import Table

    columns = ["score", "id", "text"]
    texts, marked = zip(*map(_shown, hits), strict=True) if hits else ((), ())
    rows = [[f"{hit.score:.4f}", str(hit.id), text] for hit, text in zip(hits, texts, strict=True)]
    if calibration is not None:
        columns.insert(1, "percentile")
        for row, hit in zip(rows, hits, strict=True):
            row.insert(1, calibration.show(hit.percentile))
    table = Table(query, tuple(columns), tuple(map(tuple, rows)), names=len(columns))
    show(table, marked={(row, len(columns) - 1): spans for row, spans in enumerate(marked)})


def _shown(hit: Hit) -> tuple[str, list[tuple[int, int]]]:
    """Return what is printed of a document, and the words of the query in it."""
    from sentemb.search.keywords import beginning

    if hit.snippet is not None:
        text, start, spans = hit.snippet.text, hit.snippet.start, hit.snippet.spans
    else:
        start, stop = hit.passage or (0, len(hit.text))
        text, spans = beginning(hit.text[start:stop]), ()
    before = "…" if start else ""
    after = "…" if start + len(text) < len(hit.text) else ""
    return f"{before}{text}{after}", [(begin + len(before), end + len(before)) for begin, end in spans]
