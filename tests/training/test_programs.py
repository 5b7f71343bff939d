"""The programs at the top level run as written, with the papers' values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.training import resolve
from tests.programs import run_program as run_program_of

PROGRAMS = Path(__file__).resolve().parents[2] / "training"
RunProgram = Callable[..., Path]


@pytest.fixture
def run_program(
    tiny_bert: Path, sentences_file: Path, dev_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunProgram:
    def run(name: str, *arguments: str) -> Path:
        common = ["--base", str(tiny_bert), "--data", str(sentences_file), "--dev", str(dev_file)]
        output = tmp_path / "output"
        steps = ("--output", str(output), "--max-steps", "1")
        run_program_of(monkeypatch, PROGRAMS / name, *common, *steps, *arguments)
        return output

    return run


@pytest.mark.parametrize(
    ("program", "arguments", "recipe"),
    [
        ("sg_opt.py", (), "sg-opt"),
        ("sg_opt.py", ("--objective", "base", "--preset", "released"), "sg"),
        ("simcse.py", (), "simcse"),
    ],
)
def test_a_program_trains_its_recipe(
    run_program: RunProgram, program: str, arguments: tuple[str, ...], recipe: str
) -> None:
    output = run_program(program, *arguments)
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    preset = "released" if "released" in arguments else "paper"
    # The values that the program shows are those of the recipe.
    expected = resolve(recipe, overrides={"output": "o", "preset": preset}).values()
    own = {"base", "data", "dev", "output", "max_steps", "loss_options"}
    for name, value in expected.items():
        if name not in own and value is not None:
            assert settings[name] == value, name
    assert (
        settings["loss_options"].items()
        >= {name: value for name, value in expected["loss_options"].items() if value is not None}.items()
    )


def test_the_supervised_program(run_program: RunProgram, write_file: Callable[[str, str], Path]) -> None:
    rows = "".join(f"a cat {word},the cat {word},no dog\n" for word in ("sat", "ran", "is red"))
    data = write_file("triples.csv", f"a,b,c\n{rows}")
    output = run_program("simcse.py", "--objective", "supervised", "--data", str(data), "--columns", "a,b,c")
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    assert (settings["pooling"], settings["batch_size"], settings["learning_rate"]) == ("cls-mlp", 512, 5e-5)


@pytest.mark.parametrize("flags", [("--seeds", "one"), ("--data", "absent.txt")])
def test_a_user_error_is_one_line(
    run_program: RunProgram, flags: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_program("sg_opt.py", *flags)
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("sentemb: error: ")
