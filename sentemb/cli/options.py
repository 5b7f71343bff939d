"""The options of the verbs, each declared once; a verb gives them their defaults."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer

from sentemb._uris import refuse_uri
from sentemb.data.folder import VARIABLE
from sentemb.errors import InputError
from sentemb.training.values import parsed

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder


def bundled_models(incomplete: str) -> list[str]:
    """Bundled models, for the shell's completion; it offers files where none of them fits."""
    from sentemb.modules.bundled import bundled_names

    return [name for name in bundled_names() if name.startswith(incomplete)]


def local_output(path: Path | None) -> Path | None:
    """An output as it was given, unless it is a URI."""
    if path is not None:
        refuse_uri(path)
    return path


# Models
_MODEL = "Folder, hub id, bundled model or word-vector file (GloVe format)."
MaybeModels = Annotated[
    list[str] | None, typer.Argument(metavar="[MODEL]...", help=_MODEL, autocompletion=bundled_models)
]
Models = Annotated[list[str], typer.Argument(help=_MODEL, autocompletion=bundled_models)]
Systems = Annotated[
    list[str],
    typer.Argument(
        help=f"{_MODEL} Or bm25; hybrid:MODEL; a run of TREC (.trec), or a folder of runs SET.trec.",
        autocompletion=bundled_models,
    ),
]
Candidates = Annotated[
    list[str],
    typer.Argument(
        help=f"{_MODEL} Or bm25; hybrid:MODEL; hybrid-rrf:MODEL; with --judged also hybrid-fitted:MODEL. "
        "--pairs takes encoders alone.",
        autocompletion=bundled_models,
    ),
]
Model = Annotated[str, typer.Argument(help=_MODEL, autocompletion=bundled_models)]
Named = Annotated[str, typer.Option("--model", "-m", help=_MODEL, autocompletion=bundled_models)]
DEFAULT_ENCODER = "static-mini"  # bundled; what a command takes that needs an encoder and is told none
Base = Annotated[
    str | None,
    typer.Option(help="Base model: folder, hub id or bundled model.", autocompletion=bundled_models),
]
Pooling = Annotated[
    str | None,
    typer.Option(help="For a raw transformer: cls, mean, max, last-token, first-last, last-2, ..."),
]
Precision = Annotated[
    Literal["float32", "reduced"], typer.Option(help="reduced: fewer bits where that is faster.")
]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Longest input in tokens.")]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0; the best there is by default.")]
CacheDir = Annotated[
    Path | None, typer.Option(help="Keep vectors here for later commands, and use those here.")
]

# Data
DOCUMENTS = "Your documents: file, folder, URI, hub id, catalogue name, or folder in BEIR's layout."
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar=VARIABLE, help="Folder with data sets, or SimCSE's senteval.tar."),
]
TextColumn = Annotated[
    str | None, typer.Option(help="Column of the documents' text.", show_default="text, or the only one")
]
TitleColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the title, which is put before the text, or none.",
        show_default="title, where there is one",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the unique ids, or none to number the documents.",
        show_default="id, _id, doc_id, ..., where there is one",
    ),
]
Sets = Annotated[
    str | None,
    typer.Option(help="Names of data sets or your own files, separated by commas; the suite's by default."),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,...", help="Text columns in the order of their roles."),
]
AllowCountMismatch = Annotated[
    bool, typer.Option("--allow-count-mismatch", help="Use data sets with missing or extra rows.")
]

# Results
Records = Annotated[
    list[Path], typer.Option("--records", "-r", help="Result records, or folders of them; repeat it.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for result records.", callback=local_output)
]
OutputFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder to make.", callback=local_output)]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="File to make.", callback=local_output)]
OutputPicture = Annotated[
    Path, typer.Option("--output", "-o", help="The picture, a .png file.", callback=local_output)
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier run of the command made.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print markdown, on a terminal too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Runs
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random draw.")]
Seeds = Annotated[str | None, typer.Option(help="One run each: 1,2,3.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: KEY=VALUE, loss_options.KEY=VALUE; repeat it."),
]
Jobs = Annotated[int, typer.Option(min=1, help="Runs side by side, a process each.")]


def split_names(listed: str) -> list[str]:
    """Read an option that takes several names, such as `--sets sts12,stsb`."""
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def split_columns(listed: str | None) -> list[str] | None:
    """Read `--columns a,b` as the recipes do: names that hold commas are written as a list of TOML."""
    return None if listed is None else list(parsed(listed, tuple[str, ...]))


def listed_columns(names: Sequence[str]) -> str:
    """Write columns as `--columns` takes them."""
    return json.dumps(names, ensure_ascii=False) if any(map(_needs_list, names)) else ",".join(names)


def _needs_list(name: str) -> bool:
    return "," in name or name != name.strip()


def given_options(options: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """The arguments of a proposed command: each option whose value is not None and not its default.

    Args:
        options: The value and the default by the option's name.
    """
    given = {name: value for name, (value, default) in options.items() if value not in (None, default)}
    return [str(part) for option in given.items() for part in option]


def given_data_dir(data_dir: Path | None) -> Path | None:
    """The data folder, where it is not what the environment names: a proposed command must name it."""
    named = os.environ.get(VARIABLE)
    return None if named and Path(named) == data_dir else data_dir


_LARGEST = 1e15  # far above any count, and exact as a float


def split_numbers(option: str, listed: str) -> list[float]:
    """Read an option that takes several numbers, such as `--values 20,0.5`."""
    try:
        numbers = [int(part) if part.strip().isdecimal() else float(part) for part in listed.split(",")]
    except (ValueError, OverflowError):
        numbers = []
    if not numbers or not all(abs(number) < _LARGEST for number in numbers) or len({*numbers}) < len(numbers):
        raise InputError(f"--{option} {listed} is no list of unique numbers", "write 1,2,3")
    return numbers


def split_seeds(listed: str) -> tuple[int, ...]:
    """Read `--seeds 1,2,3`."""
    parts = [part.strip() for part in listed.split(",")]
    if not all(part.isdecimal() and len(part) < 20 for part in parts) or len({*map(int, parts)}) < len(parts):
        raise InputError(f"--seeds {listed} is not a list of unique whole numbers from 0", "write 1,2,3")
    return tuple(int(part) for part in parts)


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that takes a dataclass as one of its arguments an option for each of its fields.

    Options that several verbs share are declared once, in that dataclass.
    """
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    ((taken, group),) = cast(dict[str, type[Any]], groups).items()
    hints |= get_type_hints(group, include_extras=True)
    parameters = [one for name, one in inspect.signature(verb).parameters.items() if name != taken]
    parameters += inspect.signature(group).parameters.values()

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        options = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given, **{taken: options})

    run.__annotations__ = hints
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name]) for one in parameters]
    )
    return run


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """How a verb loads encoders."""

    pooling: Pooling = None
    precision: Precision = "float32"
    max_length: MaxLength = None
    device: Device = None
    cache_dir: CacheDir = None
    data_dir: DataDir = None

    def load(self, model: str) -> TextEncoder:
        """Load an encoder by these options."""
        from sentemb.encoding import load_encoder

        return load_encoder(**self.arguments(model))

    def arguments(self, model: str) -> dict[str, Any]:
        """What `load_encoder` takes."""
        return {"model": model, **{field.name: getattr(self, field.name) for field in fields(EncoderOptions)}}


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(EncoderOptions):
    """What the verbs that evaluate encoders share."""

    output: Output = None
    overwrite: Overwrite = False
    allow_count_mismatch: AllowCountMismatch = False
