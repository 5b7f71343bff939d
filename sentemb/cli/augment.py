"""`sentemb data back-translate` and `noisy-copies`: other wordings of texts by way of another language."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb.cli.data import DataDir
from sentemb.cli.eval_classify import parse_numbers
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.augmentation import Seq2SeqTranslator
    from sentemb.augmentation.translator import Progress
    from sentemb.data import Row

Forward = Annotated[str, typer.Option(help="Model that translates the texts: folder or hub id.")]
Backward = Annotated[str, typer.Option(help="Model that translates them back.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to make: .csv, .jsonl or .parquet.")]
SourceLanguage = Annotated[
    str | None, typer.Option(help="Code of the texts' language, for models of many: en, eng_Latn.")
]
PivotLanguage = Annotated[str | None, typer.Option(help="Code of the other language, for models of many.")]
ForwardPrefix = Annotated[
    str, typer.Option(help="Before every text, such as T5's 'translate English to German: '.")
]
BackwardPrefix = Annotated[str, typer.Option(help="The same for the way back.")]
Seed = Annotated[int, typer.Option(help="Draws the samples.")]
MaxNewTokens = Annotated[int, typer.Option(help="Where a translation that does not end is cut off.")]
BatchSize = Annotated[int, typer.Option(help="Texts handed over together, and lost by a kill.")]
CacheDir = Annotated[
    Path | None, typer.Option(help="Keep translations here; by default beside the output until it is done.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...")]


def back_translate(
    data: Annotated[str, typer.Argument(help="Catalogue name, file, folder or hub id.")],
    forward: Forward,
    backward: Backward,
    output: Output,
    column: Annotated[str | None, typer.Option(help="Text column, where there are several.")] = None,
    beams: Annotated[int, typer.Option(help="Width of beam search; the paper's.")] = 100,
    temperature: Annotated[
        float | None, typer.Option(help="Sample at this temperature in place of beam search.")
    ] = None,
    source_language: SourceLanguage = None,
    pivot_language: PivotLanguage = None,
    forward_prefix: ForwardPrefix = "",
    backward_prefix: BackwardPrefix = "",
    seed: Seed = 0,
    max_new_tokens: MaxNewTokens = 256,
    batch_size: BatchSize = 16,
    cache_dir: CacheDir = None,
    device: Device = None,
    data_dir: DataDir = None,
) -> None:
    """Translate texts there and back: positives for `sentemb train bt`. Run it again to go on after Ctrl-C.

    Repeated texts stay, translated once. A text that comes back empty is left out.
    """
    from sentemb.augmentation.files import PAIR_COLUMNS, check_table_name, write_table
    from sentemb.data import load_columns

    check_table_name(output)
    rows = load_columns(data, [column] if column else None, data_dir=data_dir)
    texts = list(rows[rows.column_names[0]])
    # Before the models are loaded: a missing file or column must not cost a minute.
    from sentemb import augmentation

    decoding = augmentation.Decoding(
        beams=beams, temperature=temperature, seed=seed, max_new_tokens=max_new_tokens
    )
    there, back = _translators(
        (forward, source_language, pivot_language, forward_prefix),
        (backward, pivot_language, source_language, backward_prefix),
        decoding,
        device,
    )
    _say_too_long(there, texts)
    with _cache(cache_dir, output) as cache, _progress() as progress:
        translations = augmentation.back_translate(
            texts, there, back, cache=cache, batch_size=batch_size, progress=progress
        )
        counts = augmentation.count_back_translations(texts, translations)
        kept = [pair for pair in zip(texts, translations, strict=True) if pair[1]]
        if not kept:
            raise InputError(f"no text of {data} came back", "see that the models translate there and back")
        columns = dict(zip(PAIR_COLUMNS, zip(*kept, strict=True), strict=True))
        made = {**_made_of(data, data_dir), **_translated_by(there, back), "counts": counts._asdict()}
        write_table(output, columns, made)
    typer.echo(f"{output}: {len(kept):,} rows; {counts}")


def noisy_copies(
    data: Annotated[str, typer.Argument(help="Labelled set of the catalogue, or a file.")],
    forward: Forward,
    backward: Backward,
    output: Output,
    column: Annotated[
        list[str] | None, typer.Option(help="Text column of a file; give it twice for pairs.")
    ] = None,
    temperatures: Annotated[str, typer.Option(help="Of the samples; the paper's.")] = "0.3,0.5,0.7,0.9",
    copies: Annotated[int, typer.Option(help="Of each row at each temperature; the paper's.")] = 3,
    seeds: Annotated[
        str | None, typer.Option(help="Only rows that the experiment noise draws with these seeds.")
    ] = None,
    source_language: SourceLanguage = None,
    pivot_language: PivotLanguage = None,
    forward_prefix: ForwardPrefix = "",
    backward_prefix: BackwardPrefix = "",
    seed: Seed = 0,
    max_new_tokens: MaxNewTokens = 256,
    batch_size: BatchSize = 16,
    cache_dir: CacheDir = None,
    device: Device = None,
    data_dir: DataDir = None,
) -> None:
    """Sample noisy copies of labelled rows (SCL): for `sentemb eval classify noise --copies SET=FILE`.

    With --seeds 0,1,2,3,4,5,6,7,8,9 only the rows of the experiment's own seeds are translated, about 1,000
    of a large set's. Run it again to go on after Ctrl-C.
    """
    from sentemb.augmentation.files import check_table_name, write_table

    check_table_name(output)
    levels = _temperatures(temperatures)
    rows = _numbered_rows(data, column, seeds, data_dir)
    from sentemb import augmentation

    def decoding(temperature: float) -> augmentation.Decoding:
        return augmentation.Decoding(temperature=temperature, seed=seed, max_new_tokens=max_new_tokens)

    there, back = _translators(
        (forward, source_language, pivot_language, forward_prefix),
        (backward, pivot_language, source_language, backward_prefix),
        decoding(levels[0]),
        device,
    )
    _say_too_long(there, [text for row in rows.values() for text in row])
    columns: dict[str, list[Any]] = {}
    made: dict[str, Any] = {}
    with _cache(cache_dir, output) as cache, _progress() as progress:
        for level in levels:
            pair = (there.with_decoding(decoding(level)), back.with_decoding(decoding(level)))
            found = augmentation.noisy_copies(
                rows,
                *pair,
                temperature=level,
                copies=copies,
                cache=cache,
                batch_size=batch_size,
                progress=progress,
            )
            for name, values in found.columns.items():
                columns.setdefault(name, []).extend(values)
            made[f"{level:g}"] = {**_translated_by(*pair), "counts": found.counts._asdict()}
            typer.echo(f"temperature {level:g}: {found.counts}")
            if found.incomplete:
                typer.echo(
                    f"{found.incomplete:,} rows have fewer than {copies}; more --copies leave spare ones",
                    err=True,
                )
        write_table(output, columns, {**_made_of(data, data_dir), "temperatures": made})
    typer.echo(f"{output}: {len(columns['index']):,} copies of {len(rows):,} rows")


def _translators(
    forward: tuple[str, str | None, str | None, str],
    backward: tuple[str, str | None, str | None, str],
    decoding: Any,
    device: str | None,
) -> tuple[Seq2SeqTranslator, Seq2SeqTranslator]:
    from sentemb.augmentation import Seq2SeqTranslator

    there, back = (
        Seq2SeqTranslator(
            model,
            decoding=decoding,
            source_language=source,
            target_language=target,
            prefix=prefix,
            device=device,
        )
        for model, source, target, prefix in (forward, backward)
    )
    return there, back


def _numbered_rows(
    data: str, columns: list[str] | None, seeds: str | None, data_dir: Path | None
) -> dict[int, tuple[str, ...]]:
    """The texts of rows by their numbers in the training split."""
    from sentemb.data import get, read_rows
    from sentemb.data.sources import kind_of

    chosen = None if seeds is None else _drawn(data, parse_numbers("seeds", seeds), data_dir)
    if not columns and kind_of(data) != "entry":
        raise InputError(f"{data} does not say which of its columns hold texts", "name them with --column")
    names = columns or get(data).text_columns
    if len(names) > 2:
        raise InputError(f"{len(names)} text columns", "name one, or the two of pairs")
    rows: dict[int, tuple[str, ...]] = {}
    for number, record in enumerate(read_rows(data, columns=names, data_dir=data_dir)):
        if chosen is None or number in chosen:
            rows[number] = tuple(_filled(record, name) for name in names)
    return rows


def _filled(record: Row, name: str) -> str:
    text = record.text(name)
    if not text.strip():
        raise InputError(f"{record.location}: column {name!r} is empty", "a row needs text to be translated")
    return text


def _drawn(data: str, seeds: Sequence[int], data_dir: Path | None) -> set[int]:
    from sentemb.evaluation.classification.draws import noise_rows
    from sentemb.evaluation.classification.sets import ProtocolData

    return set(noise_rows(ProtocolData(data_dir, rule="scl").pool(data), seeds).tolist())


def _temperatures(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--temperatures {text} is no list of numbers", "write 0.3,0.5") from None
    if len(set(levels)) < len(levels):
        raise InputError(f"--temperatures {text} has one twice", "name each once")
    return levels


def _made_of(data: str, data_dir: Path | None) -> dict[str, Any]:
    from sentemb.data import describe_source

    return {"source": describe_source(data, data_dir=data_dir)}


def _translated_by(forward: Seq2SeqTranslator, backward: Seq2SeqTranslator) -> dict[str, Any]:
    return {"forward": forward.describe(), "backward": backward.describe()}


def _say_too_long(translator: Seq2SeqTranslator, texts: Sequence[str]) -> None:
    if count := translator.count_too_long(texts):
        typer.echo(
            f"{count:,} of {len(texts):,} texts are longer than {translator.name} takes; "
            "only their beginning is translated",
            err=True,
        )


@contextmanager
def _cache(folder: Path | None, output: Path) -> Iterator[Path]:
    """Where translations are kept: the user's folder, or one beside the output that a success removes."""
    own = output.absolute().parent / f".{output.name}.translating"
    try:
        yield folder or own
    except KeyboardInterrupt:
        typer.echo(f"sentemb: what is translated stays in {folder or own} for the next try", err=True)
        raise
    if folder is None:
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (*Bar.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield report
