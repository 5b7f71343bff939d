"""The `sentemb` command: verbs are imported on use, and errors of the user are one line."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from sentemb import __version__
from sentemb.cli.console import each_warning_once, error_line, say
from sentemb.encoding.truncation import report_truncation
from sentemb.errors import InputError, ReportedError, unknown

_TABLE = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text("utf-8"))
VERBS: dict[str, tuple[str, str, str]] = {
    words: one for part in _TABLE.values() for words, one in part.items()
}
"""Place of the code below `sentemb.cli`, line in the help, and arguments of an example, by verb."""
SECTIONS = {title: list(dict.fromkeys(words.split()[0] for words in part)) for title, part in _TABLE.items()}
"""Verbs and groups of verbs under each heading of `sentemb --help`."""
_GROUPS = {
    "eval": "Evaluate encoders.",
    "index": "Build, change and search a semantic index.",
    "analyse": "Analyze layers, geometry and maps of encoders.",
    "data": "Find, check and make data sets.",
}
# Modules that only an extra installs.
_EXTRAS = {
    "lancedb": "lancedb",
    "ray": "scale",
    **dict.fromkeys(("fastapi", "uvicorn", "orjson", "prometheus_client"), "serve"),
}
# Without rich's help pages `sentemb --help` answers in half the time.
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
_UsageError: type[Any] = typer.BadParameter.__mro__[1]
_NO_MEMORY = re.compile("can't allocate memory|out of memory")
_PATIENCE = 5.0  # seconds in which the first of several processes reports what every process has met


class LazyGroup(TyperGroup):
    """Group whose commands are stand-ins for help and completion until one is used."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the verbs under the headings of their sections."""
        if self.name is not None and ctx.parent is not None:
            super().format_commands(ctx, formatter)
            return
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(100)) for name in names])

    def invoke(self, ctx: Any) -> Any:
        """Say how an interrupted run resumes, and leave with the exit code of its signal."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            if (folder := getattr(stopped, "folder", None)) is None:
                raise
            say(f"{folder}: {stopped}")
            raise typer.Exit(128 + getattr(stopped, "number", signal.SIGINT)) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the real command in the place of its stand-in, and refuse blank values."""
        name, command, rest = super().resolve_command(ctx, args)
        for option, value in pairwise(rest):  # a shell makes a blank one of a variable that is not set
            if option.startswith("-") and not value.strip():
                raise InputError(f"the value of {option} is empty", "pass a value, or remove the option")
        return name, command if command is None or command.callback is None else command.callback(), rest


def build() -> Any:
    """Return the whole command, with its verbs in the order of the table."""
    app = group_app("Train, evaluate and serve sentence embeddings.", add_completion=True)
    groups: dict[str, typer.Typer] = {}
    for words, (target, help, arguments) in VERBS.items():
        name, _, second = words.partition(" ")
        stand_in = _stand_in(second or name, target, f"{words} {arguments}".rstrip())
        if not second:
            app.command(name, help=help)(stand_in)
            continue
        if name not in groups:
            groups[name] = group_app(_GROUPS[name])
            app.add_typer(groups[name], name=name)
        groups[name].command(second, help=help)(stand_in)
    app.callback()(_options)
    command: Any = get_command(app)
    command.commands = {name: command.commands[name] for names in SECTIONS.values() for name in names}
    return command


def group_app(help: str, *, cls: type[LazyGroup] = LazyGroup, add_completion: bool = False) -> typer.Typer:
    """Return a group without commands."""
    return typer.Typer(cls=cls, help=help, no_args_is_help=True, add_completion=add_completion, **_PLAIN)


def as_command(name: str, target: Callable[..., None], help: str | None = None) -> Any:
    """Return the command of a function."""
    app = typer.Typer(add_completion=False, **_PLAIN)
    app.command(name, help=help)(target)
    return get_command(app)


def _stand_in(name: str, target: str, example: str) -> Callable[[], Any]:
    """Return a function without options that imports a verb and returns its command."""

    def load() -> Any:
        module, _, attribute = target.partition(":")
        found = getattr(import_module(f"sentemb.cli.{module}"), attribute)
        command: Any = get_command(found) if isinstance(found, typer.Typer) else as_command(name, found)
        # The first line keeps the second from being wrapped.
        command.epilog = f"\b\nExample: sentemb {example}"
        return command

    return load


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sentemb {__version__}")
        raise typer.Exit


_VERSION_HELP = "Print the version and exit."
_VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help=_VERSION_HELP)


def _options(version: Annotated[bool, _VERSION] = False) -> None:
    pass


def run(arguments: list[str] | None = None) -> None:
    """Run the command; an error of the user is one line on standard error and exit code 2."""
    terminated = []

    def terminate(*_: object) -> None:
        terminated.append(True)
        raise KeyboardInterrupt  # what handles Ctrl-C cleans up and says how to resume

    try:
        _open_closed_streams()
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, terminate)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A file name that is not valid UTF-8 is printed with escapes.
            sys.stdout.reconfigure(errors="backslashreplace")
        with _only_the_first_speaks(), each_warning_once(), report_truncation(say):
            code = _call(arguments)
    except KeyboardInterrupt:  # before the command itself has begun
        code = 130
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a verb
            error.show()
            sys.exit(2)
        _leave(f"{error.format_message().rstrip('.')}; see {error.ctx.command_path} --help")
    except (InputError, OSError, UnicodeEncodeError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in _EXTRAS:
            raise
        _leave(_described(error), reported=isinstance(error, ReportedError))
    except typer.Abort:
        _leave("aborted", code=1)
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # all is done: there is nothing to say any more
    sys.exit(143 if code == 130 and terminated else code if isinstance(code, int) else 0)


def _call(arguments: list[str] | None) -> Any:
    """Call the command; leave as other programs do where what reads the output has gone."""
    try:
        return build()(args=arguments, prog_name="sentemb", standalone_mode=False)
    except SystemExit as left:  # click's own, with 1
        reason = left.__context__
        gone = isinstance(reason, OSError) and reason.errno == errno.EPIPE
        sys.exit(128 + signal.SIGPIPE if gone else left.code)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python 3.11 wraps an interrupt in a class body, as in an import.
            raise KeyboardInterrupt from error
        # On a CPU, torch has no class for memory that is full.
        if not isinstance(error, MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        size = re.search(r"allocate ([\d.]+ \w+)", str(error))
        more = f": {size[1]} more could not be allocated" if size else ""
        hint = "use smaller batches, shorter texts or a smaller model"
        raise InputError(f"there is not enough memory{more}", hint) from error


def _described(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[:80]!a} is not UTF-8 text; rename it, or write it in other characters"
    if isinstance(error, OSError):
        return (f"{error.filename}: " if error.filename else "") + (error.strerror or str(error))
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS[error.name or ""]
        return f"this command needs the package {error.name}; pip install 'sentemb[{extra}]'"
    return str(error)


def _open_closed_streams() -> None:
    """Let output that the caller has closed, as `>&-` does, go nowhere.

    Its number would otherwise go to the next file that is opened, and what is printed into that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)  # something else may have it by now
            except OSError:
                os.open(os.devnull, os.O_RDWR)
            if number:
                setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for the whole process


def _other_process() -> str | None:
    """Return the number of this process if it is not the first of several that torchrun started."""
    rank = os.environ.get("RANK", "0")
    return None if rank == "0" or os.environ.get("WORLD_SIZE", "1") == "1" else rank


def program(recipes: Mapping[str, str], *, default: str, option: str = "objective") -> None:
    """Run a program under `training/`, which trains one of several recipes; `--objective` names it."""
    arguments, chosen, flag = sys.argv[1:], default, f"--{option}"
    if flag in arguments[:-1]:
        at = arguments.index(flag)
        chosen = arguments[at + 1]
        del arguments[at : at + 2]
    if chosen not in recipes:
        _leave(str(unknown(option, chosen, recipes)))
    run(["train", *recipes[chosen].split(), *arguments])


@contextmanager
def _only_the_first_speaks() -> Iterator[None]:
    """Print nothing on the other processes, except the error that ends one."""
    if _other_process() is None:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _leave(message: str, code: int = 2, *, reported: bool = False) -> NoReturn:
    """Print an error in one line, and end this process."""
    if (process := _other_process()) is not None:
        # The first process reports it, which torchrun would end together with this one.
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
        time.sleep(_PATIENCE)
        if reported:
            sys.exit(code)
        message = f"process {process}: {message}"
    with suppress(OSError):  # what reads the output may have gone
        sys.stdout.flush()
    try:
        sys.stderr.write(error_line(message))
        sys.stderr.flush()
    except OSError:  # there is no place to say it; the exit code does
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    sys.exit(code)
