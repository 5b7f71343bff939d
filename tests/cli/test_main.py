"""The command itself: quick help, verbs that load on use, completion, one line for an error."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sentemb import cli
from sentemb.cli import console
from sentemb.cli.main import SECTIONS, VERBS, build, run
from sentemb.report.table import Table
from sentemb.training.outcome import Interrupted
from tests import processes
from tests.cli.conftest import Command


def test_no_verb_imports_anything_slow_before_it_runs() -> None:
    modules = ", ".join(f"sentemb.cli.{path.stem}" for path in Path(cli.__file__).parent.glob("*.py"))
    code = f"import sys, {modules}; print({{'torch', 'transformers', 'datasets'}} & {{*sys.modules}})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "set()"


def test_help_lists_all_verbs_whole_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from sentemb.cli.main import run\ntry: run(['--help'])\nexcept SystemExit: pass\n"
    code += "print([name for name in sys.modules if name in ('rich', 'sentemb.cli.train')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    shown = out[out.index("Your documents:") :].splitlines()[:-1]
    listed = [line.split()[0] for line in shown if line.startswith("  ")]
    assert listed == [name for names in SECTIONS.values() for name in names]
    assert {*listed} == {words.split()[0] for words in VERBS} and not any(
        line.endswith("...") for line in shown
    )
    assert len(out.splitlines()) < 50


GROUPS = {words.split()[0] for words in VERBS if " " in words}


@pytest.mark.parametrize("example", [f"{words} {verb[2]}".rstrip() for words, verb in VERBS.items()])
def test_an_example_ends_the_help_and_has_its_options(example: str, sentemb: Command) -> None:
    words = shlex.split(example)
    verb = words[: 2 if words[0] in {"train", *GROUPS} else 1]
    code, shown, _ = sentemb(*verb, "--help")
    assert code == 0 and f"Usage: sentemb {' '.join(verb)}" in shown
    assert words[0] == "train" or shown.rstrip().endswith(f"Example: sentemb {example}")
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){option}\b", shown), option


@pytest.mark.parametrize("group", ["train", *sorted(GROUPS)])
def test_what_a_group_lists_fits_on_a_line(
    group: str, sentemb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = sentemb(group, "--help")
    assert "..." not in out[out.index("Commands:") :]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sentemb ind", "index"),
        ("sentemb index b", "build"),
        ("sentemb index build --memory", "--memory-budget"),
        ("sentemb eval sts bert-m", "bert-mini"),
        ("sentemb train sg-opt --learn", "--learning-rate"),
    ],
)
def test_shells_complete_verbs_options_and_models(words: str, expected: str, tmp_path: Path) -> None:
    asked = {"_SENTEMB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    process = processes.start(processes.command, [], log=tmp_path / "log", **asked)
    process.join()
    assert process.exitcode == 0
    assert (tmp_path / "log").read_text().split() == [expected]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["classfy"], "No such command 'classfy'. Did you mean 'classify'?; see sentemb --help"),
        (["index", "search"], "Missing argument 'folder'; see sentemb index search --help"),
        (["data", "list", "--colour"], "No such option: --colour; see sentemb data list --help"),
        (["index", "search", "no\x1b[31m\nwhere", "q"], r"no\x1b[31m where"),
    ],
)
def test_an_error_is_one_line_without_control_characters(
    arguments: list[str], expected: str, sentemb: Command
) -> None:
    code, out, err = sentemb(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("sentemb: error: ") and err.count("\n") == 1
    assert expected.lower() in err.lower()  # releases of typer print names of arguments in either case


@pytest.mark.parametrize("group", [[], ["index"], ["train"]])
def test_a_group_without_a_verb_shows_its_help(group: list[str], sentemb: Command) -> None:
    code, _, err = sentemb(*group)
    assert code == 2
    assert ("Your documents:" if not group else "Commands:") in err


@pytest.mark.parametrize(
    ("stopped", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (Interrupted(Path("mine"), 7), 130, "mine: stopped at step 7; run the same command with --resume"),
        (Interrupted(Path("mine"), 7, signal.SIGTERM), 143, "mine: stopped at step 7"),
    ],
)
def test_an_interrupt_leaves_with_its_code_and_says_how_to_resume(
    stopped: KeyboardInterrupt,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted() -> None:
        raise stopped

    command = build()
    app = typer.Typer()
    app.command("card")(interrupted)
    command.commands["card"].callback = lambda: typer.main.get_command(app)
    monkeypatch.setattr("sentemb.cli.main.build", lambda: command)
    with pytest.raises(SystemExit) as left:
        run(["card"])
    assert left.value.code == code and said in capsys.readouterr().err


def test_an_interrupt_in_a_class_body_leaves_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    class Descriptor:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def importing(**options: object) -> None:
        type("Body", (), {"field": Descriptor()})

    monkeypatch.setattr("sentemb.cli.main.build", lambda: importing)
    with pytest.raises(SystemExit) as left:
        run([])
    assert left.value.code == 130


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory; use smaller batches"),
        (RuntimeError("CUDA out of memory. Tried to allocate 1.50 GiB."), "memory: 1.50 GiB more could not"),
        (RuntimeError("can't allocate memory: you tried to allocate 187 bytes."), "memory: 187 bytes more"),
    ],
)
def test_full_memory_is_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(**options: object) -> None:
        raise error

    monkeypatch.setattr("sentemb.cli.main.build", lambda: fill)
    with pytest.raises(SystemExit) as left:
        run([])
    printed = capsys.readouterr().err
    assert left.value.code == 2 and said in printed and printed.count("\n") == 1


def test_tables_are_markdown_in_a_pipe_and_columns_that_fit_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = ("model", *(f"task-number-{number}" for number in range(8)))
    row = ("all-MiniLM-\x1b[31mL6-v2", *(f"{number}.00" for number in range(8)))
    table = Table("Scores", header, (row,), notes=("of one run",))
    console.show(table)
    piped = capsys.readouterr().out
    assert piped == table.markdown().replace("\x1b", r"\x1b")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    console.show(table)
    shown = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, shown)) <= 80
    assert sum("model" in line for line in shown) > 1  # each block of columns repeats the names
    for name in header:
        assert any(name in line for line in shown)


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_error(closed: tuple[int, ...]) -> None:
    """A file that is opened next must not get the number of standard output."""
    close = " ".join(f"{number}>&-" if number else "0<&-" for number in closed)
    command = f"{shlex.quote(sys.executable)} -m sentemb data list {close}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    assert bool(done.stdout) == (1 not in closed)


def test_a_name_that_is_not_utf_8_is_one_line(sentemb: Command, tmp_path: Path) -> None:
    code, _, err = sentemb("report", tmp_path, "-o", tmp_path / "r.html", "--title", "x\udcff")
    assert code == 2 and err.count("\n") == 1
