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
from sentemb.data.locate import VARIABLE
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
_MODEL = "Model: folder, hub id, bundled model or word-vector file in GloVe format."
MaybeModels = Annotated[list[str] | None, typer.Argument(help=_MODEL, autocompletion=bundled_models)]
Models = Annotated[list[str], typer.Argument(help=_MODEL, autocompletion=bundled_models)]
Systems = Annotated[
    list[str],
    typer.Argument(
        help=f"{_MODEL} Also bm25, hybrid:MODEL, a TREC run file (.trec), or a folder with runs SET.trec.",
        autocompletion=bundled_models,
    ),
]
Candidates = Annotated[
    list[str],
    typer.Argument(
        help=f"{_MODEL} Also bm25, hybrid:MODEL, hybrid-rrf:MODEL, and with --judged hybrid-fitted:MODEL. "
        "With --pairs only encoders.",
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
    typer.Option(
        help="Pooling of a pretrained transformer that does not define one: cls, mean, max, last-token, "
        "first-last, last-2, ..."
    ),
]
Precision = Annotated[
    Literal["float32", "reduced"],
    typer.Option(help="reduced: use fewer bits (bfloat16) where that is faster."),
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Maximum length of a text in tokens. Longer texts are truncated.")
]
Device = Annotated[
    str | None, typer.Option(help="Device, such as cpu or cuda:0. The default is a GPU if there is one.")
]
CacheDir = Annotated[Path | None, typer.Option(help="Cache folder for vectors, shared by commands.")]

# Data
DOCUMENTS = "Your documents: file, folder, URI, hub id, catalogue name, or folder in BEIR layout."
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar=VARIABLE, help="Folder with data sets."),
]
TextColumn = Annotated[
    str | None,
    typer.Option(help="Column with the text of the documents.", show_default="text, or the only text column"),
]
TitleColumn = Annotated[
    str | None,
    typer.Option(
        help="Column with the title, which is put before the text. `none`: do not use a title.",
        show_default="title, if it exists",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        help="Column with unique ids. `none`: number the documents.",
        show_default="id, _id, doc_id, ..., if it exists",
    ),
]
Sets = Annotated[
    str | None,
    typer.Option(
        help="Data sets or your own files, separated by commas. The default is the sets of the suite."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B,...",
        help="Text columns in the order of their roles, such as anchor,positive.",
    ),
]
AllowCountMismatch = Annotated[
    bool,
    typer.Option(
        "--allow-count-mismatch", help="Accept data sets whose row counts differ from the catalogue."
    ),
]

# Results
Records = Annotated[
    list[Path],
    typer.Option("--records", "-r", help="Record file, or folder with records. Repeat for several."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for result records.", callback=local_output)
]
OutputFolder = Annotated[Path, typer.Option("--output", "-o", help="Output folder.", callback=local_output)]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="Output file.", callback=local_output)]
OutputPicture = Annotated[
    Path, typer.Option("--output", "-o", help="Output file of the figure (.png).", callback=local_output)
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output of an earlier run of this command.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print markdown, even on a terminal.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Runs
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]
Seeds = Annotated[
    str | None, typer.Option(help="Seeds separated by commas, such as 1,2,3. Each gets its own run.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change any setting: KEY=VALUE or loss_options.KEY=VALUE. Repeat for several settings."
    ),
]
Jobs = Annotated[int, typer.Option(min=1, help="Number of runs in parallel, each in its own process.")]


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
        raise InputError(
            f"--{option} {listed} is not a list of unique numbers",
            "write numbers separated by commas, such as 1,2,3",
        )
    return numbers


def split_seeds(listed: str) -> tuple[int, ...]:
    """Read `--seeds 1,2,3`."""
    parts = [part.strip() for part in listed.split(",")]
    if not all(part.isdecimal() and len(part) < 20 for part in parts) or len({*map(int, parts)}) < len(parts):
        raise InputError(
            f"--seeds {listed} is not a list of unique whole numbers from 0",
            "write numbers separated by commas, such as 1,2,3",
        )
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
