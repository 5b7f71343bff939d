"""`sentemb index`: build, change, search and copy an index in a folder or in LanceDB."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import sentemb
from sentemb._files import refuse_unusable_output
from sentemb._uris import without_listed_secrets
from sentemb.cli import options as opt
from sentemb.cli.console import also_command, next_command, progress_bar, say, show
from sentemb.errors import InputError
from sentemb.integrations import own_ids
from sentemb.search.documents import OVERLAP

if TYPE_CHECKING:
    from sentemb.search import Hit, Manifest
    from sentemb.search.searching import SearchArguments

Place = Annotated[str, typer.Argument(help="Index folder, or lancedb:URI.")]
Folder = Annotated[Path, typer.Argument(help="Index folder.")]
_MOVED = "Encoder of the index, if its folder has moved."
Moved = Annotated[str | None, typer.Option("--model", "-m", help=_MOVED)]
Kind = Literal["auto", "flat", "hnsw", "ivfpq"]
_TRUNCATE = (
    "Texts longer than the model's maximum length: split them into chunks, truncate them with a warning, or "
    "stop with an error."
)
Truncate = Literal["split", "warn", "error"]
_AS_BUILT = f"{_TRUNCATE} The default is the setting of the build."
TruncateNew = Annotated[Truncate | None, typer.Option(help=_AS_BUILT)]
_STAGES = {
    "read": "reading documents",
    "resume": "looking up finished texts",
    "encode": "writing vectors",
    "train": "training the vector index",
    "terms": "indexing keywords",
    "index": "indexing",
    "tune": "measuring recall",
    "weigh": "fitting the hybrid weight",
}


class _Build(opt.DocumentOptions, opt.EncoderOptions):
    data: Annotated[str, typer.Argument()]
    """Documents: file, folder, URI, hub id, catalogue name, or output folder of `sentemb encode`."""
    output: Annotated[str, typer.Option("--output", "-o")]
    """Folder for the index, or lancedb:URI if the input is an output folder of `sentemb encode`."""
    model: opt.Named = opt.DEFAULT_ENCODER
    kind: Kind = "auto"
    """Kind of the vector index: flat is exact, hnsw and ivfpq are approximate. auto chooses by size."""
    metric: Annotated[Literal["cosine", "dot"] | None, typer.Option(show_default="the model's own")] = None
    """Similarity of vectors: cosine or dot product."""
    memory_budget: str | None = None
    """Maximum memory of the index, such as 500MB. With --kind auto, the default is 2GiB."""
    language: str = "auto"
    """Language of the documents as an ISO 639-1 code, such as en, for keyword search. Detected by default."""
    truncate: Annotated[Truncate, typer.Option(help=_TRUNCATE)] = "split"
    overlap: float = OVERLAP
    """Maximum share of a chunk that the next chunk repeats, in whole sentences."""
    rescore: Literal["auto", "texts", "never"] = "auto"
    """Whether an ivfpq index encodes the texts of its best candidates again to rank them. auto does so for
    static models."""
    factory: str | None = None
    """Description of faiss's index factory in place of --kind, such as IVF4096,PQ64x4fs, for experts."""
    overwrite: opt.Overwrite = False


@opt.grouped
def build(options: _Build) -> None:
    """Encode documents and index them. Run the same command again to resume an interrupted build."""
    from sentemb.encoding.shards import ShardFolder, is_shard_folder
    from sentemb.search.documents import check_truncation
    from sentemb.search.folder import check_output, work_folder
    from sentemb.search.keywords import check_language
    from sentemb.search.move import fill_lancedb
    from sentemb.search.plan import parse_bytes

    data, model, folder = options.data, options.model, Path(options.output)
    moved = None if model == opt.DEFAULT_ENCODER else model  # of an encoded corpus
    settings = options.values("kind", "metric", "factory", "language", "rescore")
    if options.memory_budget is not None:
        settings["memory_budget"] = parse_bytes(options.memory_budget)
    check_language(options.language)
    check_truncation(options.truncate, options.overlap)
    if encoded := is_shard_folder(data):
        _refuse(options, opt.COLUMNS, "applies to documents, but the input is a folder of vectors")
    if _is_in_lancedb(options.output):
        unfit = ("kind", "memory_budget", "factory", "rescore", "overwrite")
        _refuse(options, unfit, "does not apply to a LanceDB index")
        if not encoded:
            raise InputError(
                f"a LanceDB index is built from encoded vectors, but {data} is not an output folder of "
                "`sentemb encode`",
                f"run `sentemb encode {data} --output VECTORS` first and pass VECTORS",
            )
        how = options.values("metric", "language")
        with _progress() as report:
            manifest = fill_lancedb(ShardFolder(data), options.output, moved, **how, progress=report)
        _say_copied(options.output, manifest)
        return
    check_output(folder, overwrite=options.overwrite)
    refuse_unusable_output(folder, [data, model], cache=options.cache_dir)
    building = folder.absolute().parent / f".{folder.name}.building"
    with work_folder(building, announce=say, output=folder.absolute()) as work_dir:
        texts: Any
        if encoded:
            texts, encoder = ShardFolder(data), moved
        else:
            texts = options.documents(data)
            source, encoder = _loaded(options)
            settings |= {"source": source, **options.values("truncate", "overlap")}
        with _progress() as report:
            index = sentemb.SearchIndex.build(texts, encoder, work_dir=work_dir, progress=report, **settings)
            report("weigh", 0, 1)
            index.fit()
        index.save(folder, overwrite=options.overwrite)
    _show(folder, index)
    propose_fit(folder)
    next_command("index", "search", folder, "your question")


class _Change(opt.DocumentOptions):
    folder: Place
    data: Annotated[str, typer.Argument()]
    """Documents: file, folder, hub id or catalogue name."""
    truncate: TruncateNew = None
    model: Moved = None


@opt.grouped
def add(options: _Change) -> None:
    """Encode documents and add them, all or none. It is an error if an id is already in the index."""
    _change(options, "add")


@opt.grouped
def update(options: _Change) -> None:
    """Replace the documents with the same ids, all or none. Documents with new ids are added."""
    _change(options, "update")


def _change(options: _Change, method: str) -> None:
    if not _is_in_lancedb(options.folder):
        refuse_unusable_output(options.folder, [options.data])
    documents = options.documents(options.data)
    index = sentemb.SearchIndex.open(options.folder, options.model)
    with _progress() as report:
        done = getattr(index, method)(documents, truncate=options.truncate, progress=report)
    counts = {
        "replaced {:,}": done.replaced,
        "skipped {:,} blank": done.skipped,
        "split {:,} into chunks": done.chunked,
        "truncated {:,}": done.truncated,
    }
    parts = [f"added {done.added:,}", *(text.format(count) for text, count in counts.items() if count)]
    typer.echo(f"{', '.join(parts)}; {index.count():,} documents in total")


class _Delete(opt.Options):
    folder: Place
    ids: Annotated[list[str] | None, typer.Argument()] = None
    """Ids. By default ids are read from standard input, one per line."""
    ids_file: Annotated[Path | None, typer.Option("--ids")] = None
    """File with ids, one per line."""


@opt.grouped
def delete(options: _Delete) -> None:
    """Delete documents by their ids, in one step. Ids that are not in the index are counted."""
    from sentemb.search.documents import check_id

    if options.ids and options.ids_file is not None:
        raise InputError("ids and --ids cannot be combined", "pass one of them")
    ids = list(dict.fromkeys(options.ids or lines_of(options.ids_file, "id", "--ids")))
    for position, text in enumerate(ids):
        check_id(text, f"id {position}")
    index = _open(options.folder)
    deleted = index.delete(own_ids(index, ids))
    missing = f", {len(ids) - deleted:,} not in the index" if deleted < len(ids) else ""
    typer.echo(f"deleted {deleted:,}{missing}; {len(index):,} documents remain")


def compact(place: Place) -> None:
    """Merge changes into the vector index and free the space of deleted documents."""
    index = _open(place)
    with _progress() as report:
        index.compact(progress=report)
    _show(place, index)


class _Upgrade(opt.EncoderOptions):
    folder: Folder
    model: Annotated[str, typer.Option("--model", "-m")]
    """New model: folder, hub id, bundled model or word-vector file."""
    truncate: TruncateNew = None


@opt.grouped
def upgrade(options: _Upgrade) -> None:
    """Change the model of an index. Run the same command again to resume an interrupted upgrade."""
    from sentemb.search.folder import read_manifest, work_folder

    folder, path = options.folder, options.folder.absolute()
    before = read_manifest(folder).encoder  # first: a wrong folder must not cost the loading of a model
    with work_folder(path.parent / f".{path.name}.upgrading", announce=say) as work_dir:
        source, encoder = _loaded(options)
        how = options.values("truncate") | {"source": source, "work_dir": work_dir}
        with _progress() as report:
            index = sentemb.SearchIndex.upgrade(folder, encoder, progress=report, **how)
    name = index.manifest.encoder.name
    if index.manifest.encoder.fingerprint == before.fingerprint:
        typer.echo(f"{folder} already uses this encoder, {name}; nothing was changed")
    else:
        typer.echo(f"the documents are now encoded with {name} instead of {before.name}")
        _show(folder, index)
    next_command("index", "search", folder, "your question")


class _Fit(opt.Options):
    folder: Folder
    queries: Path | None = None
    """Queries in BEIR layout: a .jsonl, .csv or .tsv file with _id and text."""
    qrels: Path | None = None
    """Qrels of the queries: .tsv as in BEIR, or .txt as in TREC."""
    model: Moved = None


@opt.grouped
def fit(options: _Fit) -> None:
    """Fit the weight of keyword and dense search in hybrid search on your queries and qrels.

    Without --queries and --qrels, the weight is fitted on queries that are generated from the documents.
    """
    from sentemb.data.retrieval import read_judgements, read_queries

    if (options.queries is None) != (options.qrels is None):
        raise InputError("--queries and --qrels need each other", "pass both or neither")
    if options.queries is None or options.qrels is None:
        weight = sentemb.SearchIndex.load(options.folder, options.model).fit()
    else:
        texts = read_queries([options.queries])
        judged = read_judgements(options.qrels, texts)
        index = sentemb.SearchIndex.load(options.folder, options.model)
        names = list({name for grades in judged.values() for name in grades})
        ids = dict(zip(names, own_ids(index, names), strict=True))
        relevant = [{ids[name]: grade for name, grade in grades.items()} for grades in judged.values()]
        weight = index.fit([texts[query] for query in judged], relevant)
    few = "there are too few documents to generate queries from"
    equal = f"hybrid search weights keyword and dense search equally: {few}"
    typer.echo(weight.reason() if weight else equal)


class _Calibrate(opt.Options):
    folder: Folder
    alpha: float = 0.05
    """Share of unanswerable queries that may get an answer."""
    judged: str | None = None
    """Queries of your users with qrels: a folder in BEIR layout. By default queries are generated from the
    documents, which does not guarantee alpha for others."""
    model: Moved = None


@opt.grouped
def calibrate(options: _Calibrate) -> None:
    """Find out when a search has no answer, for `sentemb index search --abstain`."""
    from sentemb.search.abstention import check_alpha, explain

    check_alpha(options.alpha)
    if options.judged is None:
        index = sentemb.SearchIndex.load(options.folder, options.model)
        found = index.calibrate(alpha=options.alpha)
    else:
        from sentemb.data.retrieval import RELEVANT, load_retrieval

        data = load_retrieval(options.judged)
        index = sentemb.SearchIndex.load(options.folder, options.model)
        relevant: list[list[str]] = [[] for _ in data.queries]
        for query, document, grade in data.judged.tolist():
            if document >= 0 and grade >= RELEVANT:
                relevant[query].append(data.document_ids[document])
        answers = [own_ids(index, names) for names in relevant]
        found = index.calibrate(data.queries, answers, alpha=options.alpha)
    typer.echo(explain(found))


class _Move(opt.Options):
    source: Annotated[str, typer.Argument()]
    """Index to copy: a folder or lancedb:URI."""
    to: str
    """Target: lancedb:URI (a folder or object storage), or a new folder."""


@opt.grouped
def move(options: _Move) -> None:
    """Copy an index from a folder to LanceDB or back, without encoding again. The source is not changed."""
    from sentemb.search.move import move as copy

    if not _is_in_lancedb(options.to):
        refuse_unusable_output(options.to, [options.source])
    with _progress() as report:
        manifest = copy(options.source, options.to, progress=report)
    _say_copied(options.to, manifest)


class _Search(opt.Options):
    folder: Place
    query: Annotated[str | None, typer.Argument()] = None
    """Query. By default queries are read from standard input, one per line."""
    k: Annotated[int, typer.Option("-k")] = 10
    """Number of hits per query."""
    queries: Path | None = None
    """File with queries, one per line."""
    mode: Literal["dense", "keyword", "hybrid"] = "dense"
    """Search by vectors (dense), by keywords (BM25) or by both (hybrid)."""
    min_score: str | None = None
    """Minimum score of a hit, such as 0.5. A percentile such as 99.2% means: more similar than 99.2% of
    random pairs of texts."""
    where: list[str] | None = None
    """Only return documents with this metadata, such as year>=2020 or lang=en. Repeat for several
    conditions."""
    abstain: bool = False
    """Return no hits if no document seems to answer the query, by `sentemb index calibrate`."""
    model: Moved = None
    as_json: opt.AsJson = False


@opt.grouped
def search(options: _Search) -> None:
    """Find the best documents for a query."""
    from sentemb.report.table import Table
    from sentemb.search.where import read_where

    query, mode = options.query, options.mode
    if query is not None and options.queries is not None:
        raise InputError("a query and --queries cannot be combined", "pass one of them")
    texts = [query] if query is not None else lines_of(options.queries, "query", "--queries")
    where = read_where(options.where) if options.where else None
    abstain = options.abstain
    is_lexical = mode == "keyword" and not abstain
    index = sentemb.SearchIndex.open(options.folder, None if is_lexical else options.model)
    how: SearchArguments = {"mode": mode, "min_score": options.min_score, "where": where, "abstain": abstain}
    found = index.search(texts, options.k, **how)
    calibration = index.manifest.calibration if mode == "dense" else None
    header = ("score", *(["percentile"] if calibration else []), *(["p"] if abstain else []), "id", "text")
    for text, hits in zip(texts, found, strict=True):
        if options.as_json:
            answer = {"query": text, "hits": [asdict(hit) for hit in hits], "reason": hits.reason}
            typer.echo(json.dumps(answer, ensure_ascii=False))
            continue
        if hits.reason:
            typer.echo(f"{text}: {hits.reason}")
            continue
        rows = []
        for hit in hits:
            percentile = [calibration.show(hit.percentile)] if calibration else []
            p_value = [f"{hit.p_value:.3f}"] if hit.p_value is not None else []
            rows.append((f"{hit.score:.4f}", *percentile, *p_value, str(hit.id), _shown(hit)))
        show(Table(text, header, tuple(rows), names=len(header)))


def _shown(hit: Hit) -> str:
    """Return what is printed of a document: the part with the words of the query, or the beginning."""
    from sentemb.search.keywords import beginning

    if hit.snippet is not None:
        text, start = hit.snippet.text, hit.snippet.start
    else:
        start, stop = hit.passage or (0, len(hit.text))
        text = beginning(hit.text[start:stop])
    return f"{'…' if start else ''}{text}{'…' if start + len(text) < len(hit.text) else ''}"


def info(place: Place, as_json: opt.AsJson = False) -> None:
    """Show the contents and settings of an index, after verifying all checksums."""
    index = sentemb.SearchIndex.open(place)
    _show(place, index, as_json=as_json)
    if not as_json and index.info().get("compaction_pays"):
        next_command("index", "compact", place)


def _show(place: str | Path, index: sentemb.SearchIndex, *, as_json: bool = False) -> None:
    """Print what is known of an index, and of its storage."""
    manifest, counts = index.manifest, index.info()
    facts: dict[str, Any]
    if _is_in_lancedb(str(place)):
        place = index.store.address
        known = {name: getattr(manifest, name) for name in ("documents", "vectors", "dimension")}
        facts = known | _encoder(manifest) | {"language": manifest.language} | counts
    elif as_json:
        facts = json.loads(manifest.dump(Path(place).absolute())) | counts
    else:
        facts = _facts(Path(place), manifest, counts["written"], counts["deleted"])
        facts["no answer"] = _abstention(index)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    from sentemb.report.table import Table

    def cell(fact: Any) -> str:
        return ", ".join(fact) if isinstance(fact, list) else f"{fact:,}" if isinstance(fact, int) else fact

    rows = tuple((name, cell(fact)) for name, fact in facts.items())
    show(Table("", ("index", str(place)), rows, names=2))


def _facts(folder: Path, manifest: Manifest, written: int, deleted: int) -> dict[str, str]:
    """Describe an index in a folder, and its changes since the last build or compaction."""
    from sentemb.search.folder import bytes_on_disk
    from sentemb.search.plan import format_bytes

    long = {"in chunks": manifest.chunked, "truncated": manifest.truncated}
    fates = [f"{count:,} document{'s' * (count != 1)} {what}" for what, count in long.items() if count]
    effort = {"hnsw": f", efSearch {manifest.effort}", "ivfpq": f", nprobe {manifest.effort}"}
    ranked = ""
    if manifest.rescored:
        by = "their vectors" if manifest.keeps_vectors else "their texts, which are encoded again"
        ranked = f"; for 10 hits, the best {manifest.rescored} candidates are ranked by {by}"
    recall = manifest.recall
    found = "not measured: too few vectors" if recall.at_10 is None else f"{recall.at_10:.3f}"
    if manifest.kind == "flat":
        found += " (exact search)"
    elif recall.at_10 is not None:
        speed = f"{recall.queries_per_second:,.0f} queries/s in a batch"
        found += f" on {recall.queries:,} held-out queries, {speed}"
    if written or deleted:
        found += f"; since then {written:,} vectors were added and {deleted:,} deleted"
    rules = "out rules of a language" if manifest.language == "und" else f" the rules of {manifest.language}"
    equal = "weights keyword and dense search equally; fit the weight with `sentemb index fit`"
    percentiles = "not available: there were too few texts"
    if (scores := manifest.calibration) is not None:
        points = ", ".join(f"{share}% score below {scores.score(share):.3f}" for share in (50, 90, 99))
        percentiles = f"of {scores.pairs:,} random pairs of texts, {points}; resolved up to {scores.most:g}%"
    size, each = format_bytes(bytes_on_disk(folder)), manifest.bytes_per_vector
    return {
        "documents": f"{manifest.documents:,}; {manifest.skipped:,} blank ones were skipped",
        "long texts": f"{', '.join(fates) or 'none'}; setting: {manifest.truncate}",
        "vectors": f"{manifest.vectors:,} of {manifest.dimension} dimensions, one per document or chunk",
        **_encoder(manifest),
        "kind": f"{manifest.factory}{effort.get(manifest.kind, '')}{ranked}",
        "chosen": manifest.reason,
        "recall@10": found,
        "keywords": f"words, with{rules}",
        "hybrid": manifest.hybrid.reason() if manifest.hybrid else equal,
        "percentiles": percentiles,
        "size": f"{size} on disk, {each:,.0f} bytes per vector",
        "built": ", ".join((manifest.created, *map(" ".join, manifest.versions.items()))),
    }


def _abstention(index: sentemb.SearchIndex) -> str:
    """Describe when a search of an index has no answer, and what that costs."""
    from sentemb.search.abstention import explain

    if reason := index.explain_no_abstention():
        return f"{reason}; run `sentemb index calibrate`"
    abstention = index.manifest.abstention
    assert abstention is not None
    return explain(abstention)


def _encoder(manifest: Manifest) -> dict[str, str]:
    """Describe the encoder, and how it treats queries and documents."""
    encoder = manifest.encoder
    prompts = encoder.details.get("prompts", {})
    roles = [f"{role} {prompts[role]!r}" for role in ("query", "document") if prompts.get(role)]
    if encoder.details.get("routes"):
        roles.append("separate routes of the model for queries and documents")
    name = f"{encoder.name} ({encoder.fingerprint[:12]}), {manifest.metric}"
    return {"encoder": name, "prompts": ", ".join(roles) or "none"}


def _is_in_lancedb(place: str) -> bool:
    return place.startswith("lancedb:")


def propose_fit(folder: object) -> None:
    """Propose to fit hybrid search to queries with qrels, which an index folder can be given at any time."""
    also_command(
        *("index", "fit", folder, "--queries", "queries.jsonl", "--qrels", "qrels.tsv"),
        comment="20 of your own queries with their relevant documents improve hybrid search",
    )


def _say_copied(place: str, manifest: Manifest) -> None:
    shown = without_listed_secrets(place)
    typer.echo(f"{shown}: {manifest.documents:,} documents, {manifest.vectors:,} vectors")
    next_command("index", "search", place, "your question")


def _refuse(options: opt.Options, names: tuple[str, ...], why: str) -> None:
    """Raise InputError for options that the user passes and that do not fit."""
    for option in options.flags(*names)[::2]:
        raise InputError(f"{option} {why}", f"remove {option}")


def _open(place: str) -> sentemb.SearchIndex:
    """Open an index without reading all of it."""
    return (
        sentemb.SearchIndex.open(place)
        if _is_in_lancedb(place)
        else sentemb.SearchIndex.load(place, verify=False)
    )


def _loaded(options: _Build | _Upgrade) -> tuple[Any, Any]:
    """Load an encoder. Return first what an index stores to load it again."""
    from sentemb.encoding import EncoderSpec

    source = EncoderSpec(options.model, options.pooling, options.precision, options.max_length)
    return source, source.load(**options.values("device", "cache_dir", "data_dir"))


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show stages by their names on a bar, and say what was resumed, on a terminal or not."""
    resumed = ""
    with progress_bar() as bar:

        def report(stage: str, done: int, total: int) -> None:
            nonlocal resumed
            if stage == "resume":
                resumed = f"resuming: {done:,} of {total:,} texts were already encoded"
            elif resumed:
                say(resumed)
                resumed = ""
            bar(_STAGES.get(stage, stage), done, total)

        yield report


def lines_of(file: Path | None, what: str, option: str) -> list[str]:
    """Return the lines of a file or of what is piped in, without blank ones."""
    from sentemb.data.files import read_lines

    if file is not None:
        lines = [line for _, line in read_lines(file)]
    elif sys.stdin is None or sys.stdin.isatty():
        hint = f"pass one, name a file with {option}, or pipe lines to standard input"
        raise InputError(f"the {what} is missing", hint)
    else:
        try:
            lines = sys.stdin.buffer.read().decode("utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8: {error}", "convert it to UTF-8") from None
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{file or 'standard input'} is empty", f"write one {what} per line")
    return texts
