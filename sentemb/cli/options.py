"""The options of the verbs: each is declared once, as a typed field with its help, default and range."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from typer.models import ParameterInfo

from sentemb._uris import refuse_uri
from sentemb.data.locate import VARIABLE
from sentemb.errors import InputError
from sentemb.training.values import parsed

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder


class Options(BaseModel):
    """Options of a verb: each field is one, with its docstring as help and its bounds as range.

    A field that is annotated with `typer.Argument` or `typer.Option` has the names that stand there.
    """

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, arbitrary_types_allowed=True)

    def values(self, *names: str) -> dict[str, Any]:
        """Return some of the options by name, or all."""
        return {name: getattr(self, name) for name in names or type(self).model_fields}

    def flags(self, *names: str) -> list[str]:
        """Return some of the options that are not the default, as `flags` does."""
        fields = type(self).model_fields
        return flags(
            **{name: value for name, value in self.values(*names).items() if value != fields[name].default}
        )


class Fields:
    """Fields of a configuration that a verb has as options, with the help and the range that stand there.

    Annotate a parameter of the verb with it. The parameter gets a dict of the values that the user passes, by
    the names of the fields.

    Args:
        config: The configuration: a model or a dataclass of pydantic.
        names: Names of fields, or pairs of a name and the option's.
        repeated: Whether options of fields with a tuple are repeated. By default they take one value.
    """

    def __init__(self, config: Any, *names: str | tuple[str, str], repeated: bool = False) -> None:
        self.repeated = repeated
        pairs = [(name, name) if isinstance(name, str) else name for name in names]
        # Before pydantic 2.10, only dataclasses have the fields under the second name.
        fields = getattr(config, "model_fields", None) or config.__pydantic_fields__
        self.options = {option: (field, fields[field]) for field, option in pairs}

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Return a parameter for each option."""
        for option, (_, field) in self.options.items():
            yield _parameter(option, field, of_config=True, repeated=self.repeated)

    def take(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take the values of the fields out of those of all options."""
        values = {}
        for option, (name, field) in self.options.items():
            if (value := arguments.pop(option)) is not None:
                values[name] = value if get_origin(field.annotation) is not tuple else _as_tuple(value)
        return values


Values = dict[str, Any]
"""Values of the fields of a configuration."""


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb an option for each field of the `Options` and `Fields` among its parameters."""
    hints = get_type_hints(verb, include_extras=True)
    takers: dict[str, Callable[[dict[str, Any]], Any]] = {}
    parameters: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []  # with other verbs: they come last
    for name, one in inspect.signature(verb).parameters.items():
        hint = hints[name]
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Fields)]
        if marks:
            parameters += marks[0].parameters()
            takers[name] = marks[0].take
        elif isinstance(hint, type) and issubclass(hint, Options):
            shared += [_parameter(option, hint.model_fields[option]) for option in _in_order(hint)]
            takers[name] = functools.partial(_take, hint)
        else:
            parameters.append(one.replace(kind=one.KEYWORD_ONLY, annotation=hint))

    parameters += shared

    @functools.wraps(verb)
    def run(**arguments: Any) -> None:
        taken = {name: take(arguments) for name, take in takers.items()}
        verb(**arguments, **taken)

    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _in_order(options: type[Options]) -> list[str]:
    """Return the options of a verb, and after them those that it shares with others."""
    classes = [one for one in options.__mro__ if issubclass(one, Options)]
    return list(dict.fromkeys(name for one in classes for name in inspect.get_annotations(one)))


def _take(options: type[Options], arguments: dict[str, Any]) -> Options:
    # The values are checked already. Checked again, a file name that is not UTF-8 would be refused.
    return options.model_construct(**{name: arguments.pop(name) for name in options.model_fields})


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _parameter(
    name: str, field: FieldInfo, *, of_config: bool = False, repeated: bool = False
) -> inspect.Parameter:
    kind: Any = field.annotation
    marks = list(field.metadata)
    if of_config and get_origin(kind) is tuple:
        kind, *more = get_args(get_args(kind)[0]) or get_args(kind)[:1]
        marks += [mark for one in more for mark in getattr(one, "metadata", [one])]
        kind = list[kind] if repeated else kind
    info = next((copy.copy(mark) for mark in marks if isinstance(mark, ParameterInfo)), typer.Option())
    info.help = field.description or info.help
    for mark in marks:
        info.min = mark.ge if isinstance(mark, Ge) else mark.gt if isinstance(mark, Gt) else info.min
        info.max = mark.le if isinstance(mark, Le) else info.max
    if kind is bool and info.default is ...:  # without names of its own
        info.param_decls = (f"--{name.replace('_', '-')}",)
    default = inspect.Parameter.empty if field.is_required() else field.default
    if of_config:  # which has the default
        shown = next(iter(default), None) if isinstance(default, tuple) else default
        info.show_default = False if field.is_required() or not shown else str(shown)
        kind, default = (kind, False) if kind is bool else (kind | None, None)
        info.envvar = VARIABLE if name == "data_dir" else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def bundled_models(incomplete: str) -> list[str]:
    """Return bundled models for the shell's completion, which offers files if none of them fits."""
    from sentemb.modules.bundled import bundled_names

    return [name for name in bundled_names() if name.startswith(incomplete)]


def local_output(path: Path | None) -> Path | None:
    """Return a local output; raise InputError if it is a URI."""
    if path is not None:
        refuse_uri(path)
    return path


# Models
MODEL = "Model: folder, hub id, bundled model or word-vector file in GloVe format."
Models = Annotated[list[str], typer.Argument(help=MODEL, autocompletion=bundled_models)]
Model = Annotated[str, typer.Argument(help=MODEL, autocompletion=bundled_models)]
Named = Annotated[str, typer.Option("--model", "-m", help=MODEL, autocompletion=bundled_models)]
DEFAULT_ENCODER = "static-mini"  # bundled; what a command takes that needs an encoder and is told none
Pooling = Annotated[
    str | None,
    typer.Option(
        help="Pooling of a pretrained transformer that does not define one: cls, mean, max, last-token, "
        "first-last, last-2, ..."
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Maximum length of a text in tokens. Longer texts are truncated.")
]
Device = Annotated[
    str | None, typer.Option(help="Device, such as cpu or cuda:0. The default is a GPU if there is one.")
]

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
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output of an earlier run of this command.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print markdown, even on a terminal.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Runs
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")]
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


def flags(**values: Any) -> list[str]:
    """Return options of a proposed command, without those that are None and the environment's data folder."""
    if (data_dir := values.get("data_dir")) and os.environ.get(VARIABLE) == str(data_dir):
        values["data_dir"] = None
    options = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value is not None}
    return [str(part) for option in options.items() for part in option]


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


class EncoderOptions(Options):
    """Options with which a verb loads encoders."""

    pooling: Pooling = None
    precision: Literal["float32", "reduced"] = "float32"
    """reduced: use fewer bits (bfloat16) where that is faster."""
    max_length: MaxLength = None
    device: Device = None
    cache_dir: Path | None = None
    """Cache folder for vectors, shared by commands."""
    data_dir: DataDir = None

    def load(self, model: str) -> TextEncoder:
        """Load an encoder by these options."""
        from sentemb.encoding import load_encoder

        return load_encoder(**self.arguments(model))

    def arguments(self, model: str) -> dict[str, Any]:
        """Return what `load_encoder` takes."""
        return {"model": model, **self.values(*EncoderOptions.model_fields)}


class EvaluationOptions(EncoderOptions):
    """Options of the verbs that evaluate encoders."""

    output: Output = None
    overwrite: Overwrite = False
    allow_count_mismatch: AllowCountMismatch = False
