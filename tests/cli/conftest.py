"""The command as a fixture of its tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentemb.cli.main import run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sentemb(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run([*map(str, arguments)])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call
