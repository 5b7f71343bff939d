"""`sentemb data back-translate` and `noisy-copies`: paraphrases of texts through another language."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, progress_bar, say
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.augmentation import Decoding, Seq2SeqTranslator


class _Translation(opt.Options):
    """Options of both verbs."""

    forward: str
    """Model that translates the texts into the pivot language: folder or hub id."""
    backward: str
    """Model that translates them back: folder or hub id."""
    output: opt.OutputFile
    overwrite: opt.Overwrite = False
    source_language: str | None = None
    """Language of the texts, for multilingual models: a code of the model, such as en or eng_Latn."""
    pivot_language: str | None = None
    """Pivot language, for multilingual models: a code of the model, such as de or deu_Latn."""
    seed: opt.Seed = 0
    max_new_tokens: int = 256
    """Maximum length of a translation in tokens."""
    batch_size: int = 16
    """Texts per batch. Finished batches survive if the command is killed."""
    device: opt.Device = None
    data_dir: opt.DataDir = None

    def translators(self, decoding: Decoding, texts: list[str]) -> tuple[Seq2SeqTranslator, ...]:
        """Load both models, and warn of texts that are too long for the first."""
        from sentemb.augmentation import Seq2SeqTranslator

        source, pivot = self.source_language, self.pivot_language
        how: dict[str, Any] = {"decoding": decoding, "device": self.device}
        forward = Seq2SeqTranslator(self.forward, source_language=source, target_language=pivot, **how)
        backward = Seq2SeqTranslator(self.backward, source_language=pivot, target_language=source, **how)
        if count := forward.count_too_long(texts):
            say(
                f"{count:,} of {len(texts):,} texts are longer than the maximum input of {forward.name}; "
                "they are truncated before translation"
            )
        return forward, backward

    @contextmanager
    def work(self) -> Iterator[dict[str, Any]]:
        """Yield options of the translation, among them a folder next to the output for what is finished."""
        folder = self.output.absolute().parent / f".{self.output.name}.translating"
        try:
            with progress_bar() as bar:
                yield {"cache": folder, "batch_size": self.batch_size, "progress": bar}
        except KeyboardInterrupt:
            say(f"finished translations are kept in {folder}; run the command again to resume")
            raise
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, columns: dict[str, list[Any]], data: str, **made: Any) -> None:
        """Write the texts, and a manifest that says how they were made."""
        from sentemb.data import describe_source
        from sentemb.data.columns import write_table

        source = describe_source(data, data_dir=self.data_dir)
        write_table(self.output, columns, {"source": source, **made})


class _BackTranslation(_Translation):
    data: Annotated[str, typer.Argument()]
    """Texts: catalogue name, file, folder or hub id."""
    column: str | None = None
    """Column with the texts. Required if there are several text columns."""
    beams: int = 100
    """Beam width. The default is the paper's."""
    temperature: float | None = None
    """Sample at this temperature instead of using beam search."""


@opt.grouped
def back_translate(options: _BackTranslation) -> None:
    """Back-translate texts, to get positives for `sentemb train bt`. Run it again to resume after Ctrl-C.

    Repeated texts are kept and translated once. Texts whose translation is empty are skipped.
    """
    from sentemb.data import load_columns
    from sentemb.data.columns import by_column, check_output

    # Before the models are loaded: a missing file or column must not cost a minute.
    data, column = options.data, options.column
    check_output(options.output, [data], overwrite=options.overwrite)
    rows = load_columns(data, [column] if column else None, data_dir=options.data_dir)
    texts = list(rows[rows.column_names[0]])
    from sentemb import augmentation
    from sentemb.augmentation.back_translation import count_back_translations

    decoding = augmentation.Decoding(**options.values("beams", "temperature", "seed", "max_new_tokens"))
    pair = options.translators(decoding, texts)
    with options.work() as how:
        back = augmentation.back_translate(texts, *pair, **how)
        counts = count_back_translations(texts, back)
        kept = [both for both in zip(texts, back, strict=True) if both[1]]
        if not kept:
            raise InputError(
                f"all translations of {data} are empty",
                "check that --forward and --backward are translation models for this language pair",
            )
        columns = by_column(augmentation.PAIR_COLUMNS, kept)
        options.write(columns, data, **_described(pair), counts=counts._asdict())
    typer.echo(f"{options.output}: {len(kept):,} rows; {counts}")
    next_command("train", "bt", "--data", options.output, "--output", "FOLDER")


class _NoisyCopies(_Translation):
    data: Annotated[str, typer.Argument()]
    """Labelled texts: catalogue name or file."""
    columns: opt.Columns = None
    temperatures: str = "0.3,0.5,0.7,0.9"
    """Sampling temperatures. The defaults are the paper's."""
    copies: int = 3
    """Copies of each row at each temperature. The default is the paper's."""
    seeds: str | None = None
    """Copy only the rows that the experiment `noise` samples with these seeds, such as 0,1,2."""


@opt.grouped
def noisy_copies(options: _NoisyCopies) -> None:
    """Sample noisy copies of labelled rows by back-translation, for the experiment `noise` (SCL).

    Pass the result to `sentemb experiment noise --data copies.SET=FILE`. With --seeds 0,1,2,3,4,5,6,7,8,9
    only the rows that the experiment uses are translated, about 1,000 of a large set. Run the command again
    to resume after Ctrl-C.
    """
    from sentemb.data.columns import check_output
    from sentemb.data.sampling import read_originals

    data, copies = options.data, options.copies
    check_output(options.output, [data], overwrite=options.overwrite)
    levels = [float(level) for level in opt.split_numbers("temperatures", options.temperatures)]
    only: set[int] | None = None
    if options.seeds is not None:
        from sentemb.experiments.labelled_sets import LabelledSets, noise_rows

        pool = LabelledSets(options.data_dir, rule="scl").pool(data)
        only = set(noise_rows(pool, opt.split_seeds(options.seeds)).tolist())
    rows = read_originals(data, opt.split_columns(options.columns), only=only, data_dir=options.data_dir)
    from sentemb import augmentation
    from sentemb.augmentation.back_translation import noisy_copies as noisy_copies_of

    given = options.values("seed", "max_new_tokens")
    decodings = [augmentation.Decoding(temperature=level, **given) for level in levels]
    pair = options.translators(decodings[0], [text for row in rows.values() for text in row])
    copied: dict[str, list[Any]] = {}
    made: dict[str, Any] = {}
    with options.work() as how:
        for level, decoding in zip(levels, decodings, strict=True):
            sampling = tuple(translator.with_decoding(decoding) for translator in pair)
            found = noisy_copies_of(rows, *sampling, temperature=level, copies=copies, **how)
            for name, values in found.columns.items():
                copied.setdefault(name, []).extend(values)
            made[f"{level:g}"] = {**_described(sampling), "counts": found.counts._asdict()}
            typer.echo(f"temperature {level:g}: {found.counts}")
            if found.incomplete:
                say(
                    f"{found.incomplete:,} rows have fewer than {copies} distinct copies; raise --copies to "
                    "have spare ones"
                )
        options.write(copied, data, temperatures=made)
    typer.echo(f"{options.output}: {len(copied['index']):,} copies of {len(rows):,} rows")
    next_command("experiment", "noise", "--data", f"copies.{data}={options.output}", "--output", "FOLDER")


def _described(pair: tuple[Seq2SeqTranslator, ...]) -> dict[str, Any]:
    return {role: one.describe() for role, one in zip(("forward", "backward"), pair, strict=True)}
