"""`sentemb eval all`, `transfer` and `geometry`, and `sentemb card`: from a folder of data to a card."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from sentemb.encoding import load_encoder
from tests.cli.conftest import Command
from tests.records import write_senteval

PROGRAM = Path(__file__).resolve().parents[2] / "eval" / "senteval.py"
OPTIONS = ("--suites", "sts,geometry", "--allow-count-mismatch")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with STS-B alone, thirty pairs in each split."""
    nouns = "cat dog man woman birds children".split()
    pairs = [
        (f"the {nouns[n % 6]} {nouns[n % 5]}", f"a {nouns[n % 4]} {nouns[n // 6]}", n % 6) for n in range(30)
    ]
    return write_senteval(tmp_path / "data", pairs, "STS-B")


@pytest.fixture
def model(tiny_bert: Path, tmp_path: Path) -> Path:
    """A saved encoder."""
    folder = tmp_path / "tiny"
    load_encoder(tiny_bert, pooling="mean").model.save(str(folder))  # type: ignore[attr-defined]
    return folder


def test_from_data_to_a_card(sentemb: Command, data: Path, model: Path, tmp_path: Path) -> None:
    command = ("eval", "all", model, "--data-dir", data, "-o", tmp_path / "out", *OPTIONS)
    code, out, err = sentemb(*command)
    assert (code, out) == (2, "")
    assert "does not contain sts12" in err
    assert "nor sts13, sts14, sts15, sts16, sickr, sickr-mteb; add --allow-missing" in err
    assert not (tmp_path / "out").exists()
    code, out, err = sentemb(*command, "--allow-missing")
    assert code == 0, err
    assert "| tiny | " in out
    for title in ("**STS, Spearman x 100", "**Geometry on stsb dev**"):
        assert out.count(title) == 1
    assert "skipped, because they are not available: sts12, sts13," in err
    assert "unique sentences; encode" in err
    assert "encoded" in err
    assert err.splitlines()[-1] == f"next: sentemb report {tmp_path / 'out'}"
    code, out, err = sentemb(*command, "--allow-missing")
    assert "tiny: sts, geometry already recorded, skipped" in err
    assert "encoded" not in err
    readme = model / "README.md"
    readme.write_text("# Mine\n\nWords.\n")
    code, out, err = sentemb("card", model, "--records", tmp_path / "out")
    assert code == 0, err
    card = ModelCard.load(readme)
    assert [one.dataset_name for one in card.data.eval_results] == ["stsb"]
    assert "# Mine\n\nWords.\n" in card.text
    assert "**Geometry on stsb dev**" in card.text


def test_a_card_needs_a_model_and_records_of_it(sentemb: Command, model: Path, tmp_path: Path) -> None:
    for arguments, problem in (
        ((model, "--records", tmp_path / "none"), "none"),
        ((model, "--records", tmp_path), "no record of the model"),
    ):
        code, _, err = sentemb("card", *arguments)
        assert code == 2
        assert problem in err
