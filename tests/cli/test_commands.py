"""Commands that are proposed: they can be typed, and hold no credentials."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sentemb.cli.console import error_line, format_command, next_command
from sentemb.cli.main import run


def test_an_executable_that_is_not_on_the_path_is_called_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "my env" / "sentemb"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho started $1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(script), "quickstart"])
    command = format_command("doctor")
    assert command == f"'{script}' doctor"
    assert subprocess.check_output(["/bin/sh", "-c", command], text=True) == "started doctor\n"


def test_a_module_that_runs_without_its_executable_is_called_by_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["/somewhere/sentemb/__main__.py"])
    next_command("serve", "my index", comment="a page")
    line = f"next: {shlex.quote(sys.executable)} -m sentemb serve 'my index'  # a page\n"
    assert capsys.readouterr().err == line


def test_words_are_quoted_and_lose_their_credentials() -> None:
    secret = "http://me:password@host/a b.jsonl?token=secret"
    table = "lancedb:s3://me:password@bucket/x?token=secret"
    assert format_command("adapt", secret, Path("my model"), 3) == (
        "sentemb adapt 'http://host/a b.jsonl' 'my model' 3"
    )
    assert shlex.split(format_command("index", table, f"{secret},{secret}")) == [
        *("sentemb", "index", "lancedb:s3://bucket/x"),
        "http://host/a b.jsonl,http://host/a b.jsonl",
    ]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "LanceDB cannot open s3://me:pw@bucket/x?token=T: no such bucket",
            "LanceDB cannot open s3://bucket/x: no such bucket",
        ),
        (
            "no such model folder: 'http://me:pw@host/m?t=T'; check",
            "no such model folder: 'http://host/m'; check",
        ),
        ("cannot read http:/me:pw@host/x?t=T", "cannot read http:/host/x"),
        ("LanceDB cannot open lancedb:/a/what?.lance", "LanceDB cannot open lancedb:/a/what?.lance"),
        ("see https://host/page, and mail a@b.org", "see https://host/page, and mail a@b.org"),
        ("write lancedb:FOLDER or file:///FOLDER/FILE", "write lancedb:FOLDER or file:///FOLDER/FILE"),
    ],
)
def test_error_lines_hold_no_credentials(message: str, shown: str) -> None:
    assert error_line(message) == f"sentemb: error: {shown}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["index", "build", "texts.txt", "-m", "http://me:password@127.0.0.1:9/m?t=password", "-o", "index"],
        ["serve", "static-mini", "--keys", "http://me:password@127.0.0.1:9/keys?t=password"],
        ["adapt", "http://me:password@127.0.0.1:9/texts.jsonl?t=password", "-o", "model"],
        ["eval", "sts", "static-mini", "--sets", "http://me:password@127.0.0.1:9/pairs.csv?t=password"],
    ],
    ids=" ".join,
)
def test_an_error_of_a_command_holds_no_credentials(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a cat sat\n")
    with pytest.raises(SystemExit, match="2"):
        run(arguments)
    printed = "".join(capfd.readouterr())
    assert "127.0.0.1" in printed and "password" not in printed
