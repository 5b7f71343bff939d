"""`sentemb index build`: an index of documents, or of what `sentemb encode` made."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sentemb._files import refuse_unusable_output
from sentemb._uris import without_listed_secrets
from sentemb.cli.console import next_command, progress_bar, propose_fit, say
from sentemb.cli.index import COMPACTING, STAGES, TruncateOption, by_stage, is_in_lancedb, show_facts
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    EncoderOptions,
    IdColumn,
    Named,
    Overwrite,
    TextColumn,
    TitleColumn,
    grouped,
)
from sentemb.errors import InputError
from sentemb.search.documents import OVERLAP

if TYPE_CHECKING:
    from sentemb.search import Document, SearchIndex

_Make = Callable[[Callable[[str, int, int], None], Mapping[str, Any]], "SearchIndex"]
_FILLING = COMPACTING | {"resume": "looking up written documents", "index": "writing", "train": "indexing"}


@grouped
def build(
    data: Annotated[
        str,
        typer.Argument(
            help="Documents: file, folder, URI, hub id, catalogue name, or output folder of `sentemb encode`."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the index, or lancedb:URI if the input is an output folder of `sentemb encode`.",
        ),
    ],
    options: EncoderOptions,
    model: Named = DEFAULT_ENCODER,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    id_column: IdColumn = None,
    kind: Annotated[
        Literal["auto", "flat", "hnsw", "ivfpq"],
        typer.Option(
            help="Kind of the vector index: flat is exact, hnsw and ivfpq are approximate. auto chooses by "
            "size."
        ),
    ] = "auto",
    metric: Annotated[
        Literal["cosine", "dot"] | None,
        typer.Option(help="Similarity of vectors: cosine or dot product.", show_default="the model's own"),
    ] = None,
    memory_budget: Annotated[
        str | None,
        typer.Option(
            help="Maximum memory of the index, such as 500MB. With --kind auto, the default is 2GiB."
        ),
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            help="Language of the documents as an ISO 639-1 code, such as en, for keyword search. Detected "
            "by default."
        ),
    ] = "auto",
    truncate: TruncateOption = "split",
    overlap: Annotated[
        float, typer.Option(help="Maximum share of a chunk that the next chunk repeats, in whole sentences.")
    ] = OVERLAP,
    rescore: Annotated[
        Literal["auto", "texts", "never"],
        typer.Option(
            help="Whether an ivfpq index encodes the texts of its best candidates again to rank them. auto "
            "does so for static models."
        ),
    ] = "auto",
    factory: Annotated[
        str | None,
        typer.Option(
            help="Description of faiss's index factory in place of --kind, such as IVF4096,PQ64x4fs, for "
            "experts."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Encode documents and index them. Run the same command again to resume an interrupted build."""
    from sentemb.encoding.shards import is_shard_folder
    from sentemb.search import read_documents
    from sentemb.search.documents import check_truncation
    from sentemb.search.folder import check_output, work_folder
    from sentemb.search.keywords import check_language
    from sentemb.search.plan import parse_bytes

    budget = None if memory_budget is None else parse_bytes(memory_budget)
    check_language(language)
    check_truncation(truncate, overlap)
    encoded = is_shard_folder(data)
    if encoded:
        columns = {"text_column": text_column, "title_column": title_column, "id_column": id_column}
        _refuse("applies to documents, but the input is a folder of vectors", **columns)
    if is_in_lancedb(output):
        _refuse(
            "does not apply to a LanceDB index",
            kind=None if kind == "auto" else kind,
            memory_budget=memory_budget,
            factory=factory,
            rescore=None if rescore == "auto" else rescore,
            overwrite=overwrite or None,
        )
        if not encoded:
            raise InputError(
                f"a LanceDB index is built from encoded vectors, but {data} is not an output folder of "
                "`sentemb encode`",
                f"run `sentemb encode {data} --output VECTORS` first and pass VECTORS",
            )
        _fill(data, output, None if model == DEFAULT_ENCODER else model, metric, language)
        return
    folder = Path(output)
    check_output(folder, overwrite=overwrite)
    refuse_unusable_output(folder, [data, model], cache=options.cache_dir)
    building = folder.absolute().parent / f".{folder.name}.building"
    with work_folder(building, announce=say, output=folder.absolute()) as work_dir:
        wanted: dict[str, Any] = {
            "kind": kind,
            "metric": metric,
            "memory_budget": budget,
            "factory": factory,
            "language": language,
            "rescore": rescore,
            "work_dir": work_dir,
        }
        if encoded:
            make = _of_vectors(data, None if model == DEFAULT_ENCODER else model)
        else:
            wanted |= {"truncate": truncate, "overlap": overlap}
            documents = read_documents(
                data,
                text_column=text_column,
                title_column=title_column,
                id_column=id_column,
                data_dir=options.data_dir,
            )
            make = _of_documents(documents, model, options)
        with progress_bar() as bar:
            index = make(bar, wanted)
            bar(STAGES["weigh"], 0, 1)
            index.fit()
        index.save(folder, overwrite=overwrite)
    show_facts(folder, index.manifest)
    propose_fit(folder)
    next_command("index", "search", folder, "your question")


def _of_documents(documents: Iterator[Document], model: str, options: EncoderOptions) -> _Make:
    """An index of documents that are encoded."""
    from sentemb.encoding import EncoderSpec
    from sentemb.search import SearchIndex

    # Before the model is loaded: a missing file or column must not cost a minute.
    first = list(itertools.islice(documents, 1))
    source = EncoderSpec(model, options.pooling, options.precision, options.max_length)
    encoder = source.load(device=options.device, cache_dir=options.cache_dir, data_dir=options.data_dir)

    def make(bar: Callable[[str, int, int], None], wanted: Mapping[str, Any]) -> SearchIndex:
        every = itertools.chain(first, documents)
        return SearchIndex.build(every, encoder, source=source, progress=by_stage(bar), **wanted)

    return make


def _of_vectors(data: str, moved: str | None) -> _Make:
    """An index of what was encoded before."""
    from sentemb.encoding.shards import ShardFolder
    from sentemb.search import SearchIndex

    shards = ShardFolder(data)

    def make(bar: Callable[[str, int, int], None], wanted: Mapping[str, Any]) -> SearchIndex:
        return SearchIndex.from_shards(shards, moved, progress=by_stage(bar, COMPACTING), **wanted)

    return make


def _fill(
    data: str,
    address: str,
    moved: str | None,
    metric: Literal["cosine", "dot"] | None,
    language: str,
) -> None:
    """Write what was encoded before to LanceDB."""
    from sentemb.encoding.shards import ShardFolder
    from sentemb.search.move import fill_lancedb

    shards = ShardFolder(data)
    with progress_bar() as bar:
        manifest = fill_lancedb(
            shards,
            address,
            moved,
            metric=metric,
            language=language,
            progress=by_stage(bar, _FILLING),
        )
    shown = without_listed_secrets(address)
    typer.echo(f"{shown}: {manifest.documents:,} documents, {manifest.vectors:,} vectors")
    next_command("index", "search", address, "your question")


def _refuse(why: str, **given: object) -> None:
    """Refuse options that were given and do not fit."""
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {why}", f"remove {option}")
