from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.cli.main import run

WORDS = "cat dog man woman red apple house children".split()


@pytest.fixture
def arguments(tiny_bert: Path, write_file: Callable[[str, str], Path], tmp_path: Path) -> list[str]:
    data = write_file("sentences.txt", "".join(f"the {word} is in a park\n" for word in WORDS))
    rows = "".join(f"a {word}\tthe {word} sat\t{index}\n" for index, word in enumerate(WORDS))
    dev = write_file("dev.tsv", f"sentence1\tsentence2\tscore\n{rows}")
    paths = {"--base": tiny_bert, "--data": data, "--dev": dev, "--output": tmp_path / "output"}
    named = [word for option, path in paths.items() for word in (option, str(path))]
    return [*named, "--batch-size", "4", "--max-length", "16"]


def fail(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        run(["train", *arguments])
    assert caught.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("sentemb: error: ")
    return message


def succeed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    with pytest.raises(SystemExit) as caught:
        run(["train", *arguments])
    assert caught.value.code == 0
    return capsys.readouterr()


def test_training_shows_components_scores_and_negatives(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    width = ["--set", "loss_options.projection_width=8"]
    out, err = succeed(["sg-opt", *arguments, *width, "--seeds", "1,2", "--max-length", "6"], capsys)
    assert "8 of 8 training texts are longer than 4 tokens (--max-length 6)" in err
    assert "negatives per anchor: 12" in err
    assert all(len(line) <= 80 for line in err.splitlines() if line.startswith("step "))
    assert "contrast" in err and "drift" in err and "dev_spearman " in err and "sentences/s" in err
    assert "next: sentemb eval sts " in err
    assert "(base) -> " in out
    assert "dev Spearman over 2 seeds: " in out and "±" in out and "(range " in out


def test_a_file_of_settings_and_flags_over_it(
    arguments: list[str],
    write_file: Callable[[str, str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_file(
        "t.toml", "batch_size = 2\nmax_steps = 1\neval_steps = 7\n[loss_options]\ntemperature = 0.2\n"
    )
    succeed(["simcse", *arguments, "--config", str(file), "--temperature", "0.3"], capsys)
    settings = (tmp_path / "output" / "run" / "config.toml").read_text()
    for line in ("batch_size = 4", "max_steps = 1", "eval_steps = 7", "temperature = 0.3"):
        assert line in settings.splitlines()


def test_every_default_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = succeed(["sg-opt", "--explain"], capsys)
    assert "learning_rate" in out and "table 8" in out
    released, _ = succeed(["sg-opt", "--explain", "--preset", "released"], capsys)
    assert "last weights" in released


def test_help_shows_each_default_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = succeed(["sg-opt", "--help"], capsys)
    told = " ".join(out.split())
    assert "Rows per optimizer step, divided among the processes. [16: Kim et al., ACL 2021, table 8]" in told
    assert "--drift-weight" in told and "--mini-batch-size" in told and "FILE.py:CLASS" in told


def test_own_sentences_without_sts_b_are_trained_with_the_bundled_pairs(
    arguments: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    at = arguments.index("--dev")
    command = ["simcse", *arguments[:at], *arguments[at + 2 :], "--data-dir", str(tmp_path)]
    succeed([*command, "--max-steps", "1"], capsys)
    assert caplog.text.count("the bundled sentence pairs select the checkpoint. Pass --dev FILE") == 1
    run_folder = tmp_path / "output" / "run"
    assert 'dev = "sentemb-pairs"' in (run_folder / "config.toml").read_text()
    assert "sentemb-pairs dev" in (tmp_path / "output" / "README.md").read_text()
    # Who asks for STS-B gets it or an error, and so does who trains on a data set of the catalogue.
    again = [*command, "--output", str(tmp_path / "other")]
    assert "dev set stsb" in fail([*again, "--dev", "stsb"], capsys)


def test_a_default_length_above_the_limit_of_the_model_is_lowered_silently(
    arguments: list[str], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    at = arguments.index("--max-length")
    command = ["sg-opt", *arguments[:at], "--max-steps", "1", "--set", "loss_options.projection_width=8"]
    succeed(command, capsys)
    assert "above the limit" not in caplog.text
    at = command.index("--output") + 1
    succeed([*command[:at], f"{command[at]}-2", *command[at + 1 :], "--max-length", "100"], capsys)
    assert "max_length 100 is above the limit of the model; 64 is used" in caplog.text
