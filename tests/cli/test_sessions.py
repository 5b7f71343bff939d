"""Sessions at a terminal: the commands of `sessions/*.md` run in order, and print what stands below them.

A line stands for any printed line that holds it, and … for any text. A command with an error below it ends
with exit code 2 and that one line.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.printed import steps_of

SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.md"))


def is_printed(line: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
    return any(re.search(pattern, " ".join(one.split())) for one in printed.splitlines())


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_a_session_runs_as_written(
    session: Path, tmp_path: Path, tiny_bert: Path, sentemb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = session.read_text(encoding="utf-8")
    for needed in re.findall(r"<!-- needs (\w+) -->", text):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    monkeypatch.setenv("ROOT", str(Path(__file__).resolve().parents[2]))
    shutil.copytree(tiny_bert, "bert")
    for step in steps_of(text):
        if step.is_sentemb:
            code, printed, err = sentemb(*step.words[1:])
            printed += err
        else:
            done = subprocess.run(["bash", "-c", step.text], capture_output=True, text=True)
            code, printed = done.returncode, done.stdout + done.stderr
        assert code == (2 if step.error else 0), f"{step.text}\n{printed}"
        assert "Traceback" not in printed and printed.count("sentemb: error: ") == bool(step.error)
        missing = [line for line in step.output if line.strip() and not is_printed(line, printed)]
        assert missing == [], f"{step.text}\nprinted\n{printed}"
