"""The options of the verbs: each is declared once, as a typed field with its help, default and range."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict
from typer import Argument, Option
from typer.models import ParameterInfo

from sentemb._files import refuse_existing, refuse_unusable_output
from sentemb._uris import refuse_uri
from sentemb.data.locate import VARIABLE
from sentemb.errors import InputError
from sentemb.training.values import attribute_docs, parsed

if TYPE_CHECKING:
    from sentemb.data.documents import Document
    from sentemb.encoding import TextEncoder

Values = dict[str, Any]
"""Values of those fields of a configuration that the user passes."""


class Fields:
    """Annotation of a field of type `Values`: its verb has these fields of a configuration as options.

    A name may be a pair: the field's and the option's. Options of fields with a tuple take one value, or are
    repeated.
    """

    def __init__(self, config: Any, *names: str | tuple[str, str], repeated: bool = False) -> None:
        self.repeated = repeated
        # Before pydantic 2.10, only dataclasses have the fields under the second name.
        fields = getattr(config, "model_fields", None) or config.__pydantic_fields__
        pairs = [(name, name) if isinstance(name, str) else name for name in names]
        self.options = {option: (name, fields[name]) for name, option in pairs}

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield a parameter for each option. The configuration has the default."""
        for option, (_, field) in self.options.items():
            kind, marks = field.annotation, list(field.metadata)
            default = None if field.is_required() else field.get_default()
            if get_origin(kind) is tuple:
                kind, *more = get_args(get_args(kind)[0]) or get_args(kind)[:1]
                marks += [mark for one in more for mark in getattr(one, "metadata", [one])]
                default = next(iter(default or ()), None)
                kind = list[kind] if self.repeated else kind  # type: ignore[valid-type]
            shown: Any = str(default) if default else False
            info = Option(show_default=shown, envvar=VARIABLE if option == "data_dir" else None)
            unset = (bool, False) if kind is bool else (kind | None, None)
            yield _parameter(option, unset[0], [info, *marks], field.description, unset[1])

    def take(self, arguments: dict[str, Any]) -> Values:
        """Take the values of the fields out of those of all options."""
        values = {}
        for option, (name, field) in self.options.items():
            if (value := arguments.pop(option)) is not None:
                several = tuple(value) if self.repeated else (value,)
                values[name] = several if get_origin(field.annotation) is tuple else value
        return values


class Options(BaseModel):
    """Options of a verb: each field is one, with its docstring as help and its bounds as range.

    A field that is annotated with `typer.Argument` or `typer.Option` has the names that stand there. Options
    that a verb shares with others, those of its base classes, come last.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    def values(self, *names: str) -> Values:
        """Return some of the options by name, or all."""
        return {name: getattr(self, name) for name in names or type(self).model_fields}

    def flags(self, *names: str) -> list[str]:
        """Return some of the options that are not the default, as `flags` does."""
        fields = type(self).model_fields
        changed = {
            name: value for name, value in self.values(*names).items() if value != fields[name].default
        }
        return flags(**changed)

    def check_output(self, *inputs: str | Path | None, output: Path | None = None) -> None:
        """Raise InputError if the output would replace an input, or a file without --overwrite."""
        if (path := output or getattr(self, "output", None)) is not None:
            refuse_unusable_output(path, inputs, cache=getattr(self, "cache_dir", None))
            refuse_existing(path, overwrite=getattr(self, "overwrite", False))


def grouped(verb: Callable[[Any], None]) -> Callable[..., None]:
    """Return a verb, a function of its `Options`, as typer takes it: with a parameter for each option."""
    options: type[Options] = get_type_hints(verb)["options"]
    classes = [one for one in options.__mro__ if issubclass(one, Options)]  # its own options come first
    names = dict.fromkeys(name for one in classes for name in inspect.get_annotations(one))
    fields = {name: options.model_fields[name] for name in names if name in options.model_fields}
    configs = {
        name: one for name, field in fields.items() for one in field.metadata if isinstance(one, Fields)
    }
    docs = attribute_docs(options)
    parameters: list[inspect.Parameter] = []
    for name, field in fields.items():
        if name in configs:
            parameters += configs[name].parameters()
        else:
            default = inspect.Parameter.empty if field.is_required() else field.default
            help = field.description or docs.get(name)
            parameters.append(_parameter(name, field.annotation, field.metadata, help, default))

    @functools.wraps(verb)
    def run(**arguments: Any) -> None:
        taken: dict[str, Any] = {
            name: configs[name].take(arguments) if name in configs else arguments.pop(name) for name in fields
        }
        # The values are checked already. Checked again, a file name that is not UTF-8 would be refused.
        verb(options.model_construct(**taken))

    return with_parameters(run, parameters)


def with_parameters(
    verb: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Return a function that takes anything as one with these parameters, for typer."""
    verb.__annotations__ = {one.name: one.annotation for one in parameters}
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return verb


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a parameter that typer makes an option of."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameter(
    name: str, kind: Any, marks: Sequence[Any], help: str | None, default: Any
) -> inspect.Parameter:
    info = next((copy.copy(mark) for mark in marks if isinstance(mark, ParameterInfo)), Option())
    info.help = help or info.help
    for mark in marks:
        info.min = mark.ge if isinstance(mark, Ge) else mark.gt if isinstance(mark, Gt) else info.min
        info.max = mark.le if isinstance(mark, Le) else info.max
    if kind is bool and info.default is ...:  # without names of its own
        info.param_decls = (f"--{name.replace('_', '-')}",)
    return parameter(name, Annotated[kind, info], default)


def bundled_models(incomplete: str) -> list[str]:
    """Return bundled models for the shell's completion, which offers files if none of them fits."""
    from sentemb.modules.cards import bundled_names

    return [name for name in bundled_names() if name.startswith(incomplete)]


def local_output(path: Path | None) -> Path | None:
    """Return a local output; raise InputError if it is a URI."""
    if path is not None:
        refuse_uri(path)
    return path


# Models
DEFAULT_ENCODER = "static-mini"  # bundled; for commands that need an encoder when the user does not name one
MODEL = "Model: folder, hub id, bundled model or word-vector file in GloVe format."
Models = Annotated[list[str], Argument(help=MODEL, autocompletion=bundled_models)]
Model = Annotated[str, Argument(help=MODEL, autocompletion=bundled_models)]
Named = Annotated[str, Option("--model", "-m", help=MODEL, autocompletion=bundled_models)]
_POOLING = (
    "Pooling of a pretrained transformer that does not define one: cls, mean, max, last-token, first-last, "
    "last-2, ..."
)
Pooling = Annotated[str | None, Option(help=_POOLING)]
_LENGTH = "Maximum length of a text in tokens. Longer texts are truncated."
MaxLength = Annotated[int | None, Option(min=1, help=_LENGTH)]
_DEVICE = "Device, such as cpu or cuda:0. The default is a GPU if there is one."
Device = Annotated[str | None, Option(help=_DEVICE)]

# Data
DOCUMENTS = "Your documents: file, folder, URI, hub id, catalogue name, or folder in BEIR layout."
DataDir = Annotated[Path | None, Option("--data-dir", envvar=VARIABLE, help="Folder with data sets.")]
_TEXT = "Column with the text of the documents."
TextColumn = Annotated[str | None, Option(help=_TEXT, show_default="text, or the only text column")]
_TITLE = "Column with the title, which is put before the text. `none`: do not use a title."
TitleColumn = Annotated[str | None, Option(help=_TITLE, show_default="title, if it exists")]
_COLUMNS = "Text columns in the order of their roles, such as anchor,positive."
Columns = Annotated[str | None, Option("--columns", metavar="A,B,...", help=_COLUMNS)]
_MISMATCH = "Accept data sets whose row counts differ from the catalogue."
AllowCountMismatch = Annotated[bool, Option("--allow-count-mismatch", help=_MISMATCH)]

# Results
_RECORDS = "Record file, or folder with records. Repeat for several."
Records = Annotated[list[Path], Option("--records", "-r", help=_RECORDS)]
_RESULTS = "Folder for result records."
Output = Annotated[Path | None, Option("--output", "-o", help=_RESULTS, callback=local_output)]
OutputFolder = Annotated[Path, Option("--output", "-o", help="Output folder.", callback=local_output)]
OutputFile = Annotated[Path, Option("--output", "-o", help="Output file.", callback=local_output)]
NewFile = Annotated[Path | None, Option("--output", "-o")]
_OVERWRITE = "Replace the output of an earlier run of this command."
Overwrite = Annotated[bool, Option("--overwrite", help=_OVERWRITE)]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]

# Runs
Resume = Annotated[bool, Option("--resume", help="Resume an interrupted run.")]
Seed = Annotated[int, Option(min=0, max=2**32 - 1, help="Random seed.")]
_SEEDS = "Seeds separated by commas, such as 1,2,3. Each gets its own run."
Seeds = Annotated[str | None, Option(help=_SEEDS)]
_SET = "Change any setting: KEY=VALUE or loss_options.KEY=VALUE. Repeat for several settings."
Settings = Annotated[list[str] | None, Option("--set", help=_SET)]


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

    def check(self, models: Iterable[str]) -> None:
        """Check what is known of models, before minutes are spent on data and on the first of them."""
        from sentemb.encoding.resolve import check_address
        from sentemb.modules.loading import check_options

        check_options(self.pooling, self.device)
        for model in models:
            check_address(model, data_dir=self.data_dir)

    def arguments(self, model: str) -> Values:
        """Return what `load_encoder` takes."""
        return {"model": model, **self.values(*EncoderOptions.model_fields)}


COLUMNS = ("text_column", "title_column", "id_column")


class DocumentOptions(Options):
    """Options with which a verb reads documents."""

    text_column: TextColumn = None
    title_column: TitleColumn = None
    id_column: Annotated[str | None, Option(show_default="id, _id, doc_id, ..., if it exists")] = None
    """Column with unique ids. `none`: number the documents."""
    data_dir: DataDir = None

    def documents(self, data: str) -> Iterator[Document]:
        """Read documents. The first is read at once: a missing file or column must not cost a minute."""
        from sentemb.search import read_documents

        documents = read_documents(data, **self.values(*COLUMNS, "data_dir"))
        return itertools.chain(list(itertools.islice(documents, 1)), documents)


def split_names(listed: str | None) -> list[str]:
    """Read an option that takes several names, such as `--sets sts12,stsb`."""
    return [name for name in (part.strip() for part in (listed or "").split(",")) if name]


def split_columns(listed: str | None) -> list[str] | None:
    """Read `--columns a,b` as the recipes do: names that hold commas are written as a list of TOML."""
    return None if listed is None else list(parsed(listed, tuple[str, ...]))


def listed_columns(names: Sequence[str]) -> str:
    """Write columns as `--columns` takes them."""
    needs_list = any("," in name or name != name.strip() for name in names)
    return json.dumps(names, ensure_ascii=False) if needs_list else ",".join(names)


def split_numbers(option: str, listed: str, *, whole: bool = False) -> list[float]:
    """Read an option that takes several numbers, such as `--values 20,0.5`."""
    parts = [part.strip() for part in listed.split(",")]
    try:
        numbers = [int(part) if whole or part.isdecimal() else float(part) for part in parts]
    except (ValueError, OverflowError):
        numbers = []
    least, largest = 0 if whole else -1e15, 1e15  # far above any count, and exact as a float
    if not numbers or not all(least <= n < largest for n in numbers) or len({*numbers}) < len(numbers):
        raise InputError(
            f"--{option} {listed} is not a list of unique {'whole numbers from 0' if whole else 'numbers'}",
            "write numbers separated by commas, such as 1,2,3",
        )
    return numbers


def split_seeds(listed: str) -> tuple[int, ...]:
    """Read `--seeds 1,2,3`."""
    return tuple(int(seed) for seed in split_numbers("seeds", listed, whole=True))


def flags(**values: Any) -> list[str]:
    """Return options of a proposed command, without those that are None and the environment's data folder."""
    if (data_dir := values.get("data_dir")) and os.environ.get(VARIABLE) == str(data_dir):
        values["data_dir"] = None
    options = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value is not None}
    return [str(part) for option in options.items() for part in option]
