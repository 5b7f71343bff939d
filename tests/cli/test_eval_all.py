"""`sentemb eval all` and `sentemb card`, from a folder of data to a card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from sentemb.cli.main import run
from sentemb.encoding import load_encoder

OPTIONS = ("--suites", "sts,geometry", "--allow-count-mismatch")


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command in this process: exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as left:
        run([*map(str, arguments)])
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


@pytest.fixture
def data(tmp_path: Path, write_file: Callable[[str, str], Path]) -> Path:
    """A data folder with STS-B alone, thirty pairs in each split."""
    nouns = "cat dog man woman birds children".split()
    for split in ("dev", "test"):
        rows = [
            f"g\tf\t2012\t{n}\t{n % 6}\tthe {nouns[n % 6]} {nouns[n % 5]}\ta {nouns[n % 4]} {nouns[n // 6]}"
            for n in range(30)
        ]
        write_file(f"data/senteval/downstream/STS/STSBenchmark/sts-{split}.csv", "\n".join(rows) + "\n")
    return tmp_path / "data"


@pytest.fixture
def model(tiny_bert: Path, tmp_path: Path) -> Path:
    """A saved encoder."""
    folder = tmp_path / "tiny"
    load_encoder(tiny_bert, pooling="mean").model.save(str(folder))  # type: ignore[attr-defined]
    return folder


def test_from_data_to_a_card(
    capsys: pytest.CaptureFixture[str], data: Path, model: Path, tmp_path: Path
) -> None:
    everything = ("eval", "all", model, "--data-dir", data, "-o", tmp_path / "out", *OPTIONS)
    code, out, err = call(capsys, *everything)
    assert (code, out) == (2, "")
    assert "holds no sts12" in err
    assert "nor sts13, sts14, sts15, sts16, sickr, sickr-mteb; add --allow-missing" in err
    assert not list((tmp_path / "out").iterdir())
    code, out, err = call(capsys, *everything, "--allow-missing", "--markdown")
    assert code == 0, err
    assert "| tiny | " in out
    for title in ("**STS, Spearman x 100", "**Geometry on stsb dev**"):
        assert out.count(title) == 1
    assert "left out, since they are not there: sts12, sts13," in out
    assert "different sentences; encode" in out
    assert "encoded" in err
    code, out, err = call(capsys, *everything, "--allow-missing")
    assert "tiny: sts, geometry recorded already, not judged again" in out
    assert "encoded" not in err
    readme = model / "README.md"
    readme.write_text("# Mine\n\nWords.\n")
    code, out, err = call(capsys, "card", model, "--results", tmp_path / "out")
    assert code == 0, err
    card = ModelCard.load(readme)
    assert [one.dataset_name for one in card.data.eval_results] == ["stsb"]
    assert "# Mine\n\nWords.\n" in card.text
    assert "**Geometry on stsb dev**" in card.text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--suites", "sts,glue"], "no suite is called 'glue'"),
        (["--suites", "transfer", "--preset", "fast"], "no preset 'fast'"),
        (["--suites", "transfer"], "other --suites"),
        (["--output", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_mistakes_are_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], data: Path, arguments: list[str], problem: str
) -> None:
    code, out, err = call(capsys, "eval", "all", "anything", "--data-dir", data, *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert problem in err


def test_a_card_needs_a_model_and_records_of_it(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    for arguments, problem in (
        (("bert-mini", "--results", tmp_path), "no such folder: bert-mini"),
        ((model, "--results", tmp_path / "none"), "none"),
        ((model, "--results", tmp_path), "there is no record of the model"),
    ):
        code, _, err = call(capsys, "card", *arguments)
        assert code == 2
        assert problem in err
