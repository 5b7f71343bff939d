"""Whatever a command is given: exit code 0 and a valid result, or 2 and a line that names the culprit.

Each test takes `SENTEMB_FUZZ` examples, 8 by default and always the same; with the variable they are random.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import processes
from tests.fuzz.damage import damaged
from tests.fuzz.ground import FOLDERS, READERS, TRAININGS, fill, make_ground
from tests.fuzz.options import COMMANDS, odd_command, odd_settings
from tests.fuzz.outcome import LOGS, Outcome, contents, run, stamps

pytestmark = pytest.mark.fuzz
EXAMPLES = int(os.environ.get("SENTEMB_FUZZ", "8"))
# A training notes that it was begun again; SQLite's readers note there what they read.
_NOTES = ("run/config.toml", "run/record.json", ".sqlite-shm")
# Commands that change the index that they are given.
_CHANGES = ("index fit", "index upgrade")
quick = settings(
    max_examples=EXAMPLES,
    derandomize="SENTEMB_FUZZ" not in os.environ,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "ground"

    def succeed(arguments: list[str]) -> None:
        outcome = run(arguments, folder)
        assert outcome.code == 0, outcome.printed

    processes.warm_up(folder.with_name("warm"))
    make_ground(folder, succeed)
    return folder


class Trial:
    """Cases in a folder of their own, and the faults that were found."""

    def __init__(self, ground: Path, folder: Path) -> None:
        self.ground = ground
        self.before = stamps(ground)
        self.folder = folder / "case"
        self.faults: list[str] = []

    def begin(self) -> Path:
        """Create an empty folder for the next case."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self.folder

    def check(self, arguments: list[str], culprits: list[str], damage: str) -> None:
        """Run a command in the folder of the case and record its fault, if any."""
        given = contents(self.folder)
        outcome = run(arguments, self.folder)
        fault = outcome.fault(culprits)
        if fault is None:
            fault = self._touched(given, outcome)
        if fault is not None:
            self.faults.append(f"{fault}\n  {damage!a}\n  sentemb {arguments!a}\n{outcome.tail()}")

    def _touched(self, given: dict[str, bytes | None], outcome: Outcome) -> str | None:
        now = stamps(self.ground)
        changed = [name for name, stamp in self.before.items() if now.get(name) != stamp]
        added = now.keys() - self.before.keys()
        for name in added:  # a command may add files to its output folder
            Path(name).unlink()
        if changed or (added and outcome.code != 0):
            return f"the inputs: changed {changed[:5]}, added {sorted(added)[:5]}"
        after = contents(self.folder)
        if outcome.code == 0:
            return None
        added = {name for name in after.keys() - given.keys() if not name.endswith(LOGS)}
        if added and not outcome.diverged():
            return f"left behind: {sorted(added)[:5]}"
        changed = [
            name for name in given if after.get(name, b"") != given[name] and not name.endswith(_NOTES)
        ]
        return f"changed: {changed[:5]}" if changed else None

    def end(self) -> None:
        """Fail with all faults."""
        if self.faults:
            pytest.fail("\n\n".join([f"{len(self.faults)} faults", *self.faults]), pytrace=False)


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file(name: str, ground: Path, tmp_path: Path) -> None:
    content, command = READERS[name]
    trial = Trial(ground, tmp_path)

    @quick
    @given(damaged(name, content))
    def examine(damage: tuple[str, bytes]) -> None:
        (trial.begin() / name).write_bytes(damage[1])
        # The settings of a file are as good as its name.
        keys = re.findall(rb"(\w+) =", content) if name.endswith(".toml") else []
        trial.check(fill(command, ground, name), [name, *(key.decode() for key in keys)], damage[0])

    examine()
    trial.end()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_damaged_folder(name: str, ground: Path, tmp_path: Path) -> None:
    files = sorted(
        str(path.relative_to(ground / name)) for path in (ground / name).rglob("*") if path.is_file()
    )
    trial = Trial(ground, tmp_path)

    @quick
    @given(st.sampled_from(files), st.data())
    def examine(file: str, data: st.DataObject) -> None:
        folder = trial.begin() / name
        shutil.copytree(ground / name, folder)
        if data.draw(st.integers(0, 9)) == 0:
            damage = "removed"
            (folder / file).unlink()
        else:
            damage, content = data.draw(damaged(file, (folder / file).read_bytes()))
            (folder / file).write_bytes(content)
        called = [name, Path(file).name, Path(file).name.split(".")[0]]
        trial.check(fill(FOLDERS[name], ground, name), called, f"{file}: {damage}")

    examine()
    trial.end()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command.split()[:2]))
def test_odd_options(command: str, ground: Path, tmp_path: Path) -> None:
    trial = Trial(ground, tmp_path)

    def placed(words: list[str]) -> list[str]:
        filled = [word.replace("{g}", str(ground)) for word in words]
        if command.startswith(_CHANGES):
            filled[2] = str(shutil.copytree(ground / "index", trial.folder / "index"))
        return filled

    trial.begin()
    right = run(placed(command.split()), trial.folder)
    assert right.code == 0, right.printed

    @quick
    @given(odd_command(command))
    def examine(case: tuple[list[str], list[str]]) -> None:
        trial.begin()
        culprits = [word.replace("{g}", str(ground)) for word in case[1]]
        trial.check(placed(case[0]), culprits, "options")

    examine()
    trial.end()


@pytest.mark.parametrize("recipe", TRAININGS)
def test_odd_settings(recipe: str, ground: Path, tmp_path: Path) -> None:
    trial = Trial(ground, tmp_path)

    @quick
    @given(odd_settings(recipe))
    def examine(case: tuple[list[str], list[str]]) -> None:
        trial.begin()
        settings, culprits = ([word.replace("{g}", str(ground)) for word in part] for part in case)
        trial.check([*fill(TRAININGS[recipe], ground, ""), *settings], culprits, "settings")

    examine()
    trial.end()
