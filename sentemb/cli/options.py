"""The options of the verbs, each declared once; a verb gives them their defaults."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from sentemb.errors import InputError


def _bundled(incomplete: str) -> list[str]:
    """Bundled models, for the shell's completion; it offers files where none of them fits."""
    from sentemb.modules.bundled import bundled_names

    return [name for name in bundled_names() if name.startswith(incomplete)]


# Models
_MODEL = "Folder, hub id, bundled model or word-vector file (GloVe format)."
Models = Annotated[list[str], typer.Argument(help=_MODEL, autocompletion=_bundled)]
Model = Annotated[str, typer.Argument(help=_MODEL, autocompletion=_bundled)]
Base = Annotated[
    str | None, typer.Option(help="Base model: folder, hub id or bundled model.", autocompletion=_bundled)
]
Pooling = Annotated[
    str | None, typer.Option(help="For a raw transformer: cls, mean, max, first-last, last-2, ...")
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
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", envvar="SENTEMB_DATA", help="Folder with data sets, or SimCSE's senteval.tar."
    ),
]
Sets = Annotated[
    str | None,
    typer.Option(help="Names of data sets or your own files, separated by commas; the suite's by default."),
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="Text column; repeat it in the order of the roles.")
]
AllowCountMismatch = Annotated[
    bool, typer.Option("--allow-count-mismatch", help="Use data sets with missing or extra rows.")
]

# Results
Records = Annotated[
    list[Path], typer.Option("--records", "-r", help="Result records, or folders of them; repeat it.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for result records.")]
OutputFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="File to make.")]
OutputPicture = Annotated[Path, typer.Option("--output", "-o", help="The picture, a .png file.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier run of the command made.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print markdown, on a terminal too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Runs
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
Seeds = Annotated[str | None, typer.Option(help="One run each: 1,2,3.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: KEY=VALUE, loss_options.KEY=VALUE; repeat it."),
]
Jobs = Annotated[int, typer.Option(min=1, help="Runs side by side, a process each.")]


def split_names(listed: str) -> list[str]:
    """Read an option that takes several names, such as `--sets sts12,stsb`."""
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def split_numbers(option: str, listed: str) -> tuple[int, ...]:
    """Read an option that takes several whole numbers, such as `--seeds 1,2,3`."""
    parts = [part.strip() for part in listed.split(",")]
    if not all(part.isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise InputError(f"--{option} {listed} is no list of different whole numbers from 0", "write 1,2,3")
    return tuple(int(part) for part in parts)


def grouped(group: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb that takes a dataclass as one of its arguments an option for each of its fields.

    Options that several verbs share are declared once, in that dataclass.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(verb, include_extras=True)
        (taken,) = (name for name, hint in hints.items() if hint is group)
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

    return decorate
