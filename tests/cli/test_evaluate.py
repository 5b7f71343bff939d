from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from sentemb.evaluation.record import read_record
from tests.cli.conftest import Command
from tests.records import STS12_PARTS, write_senteval

NOUNS = "cat dog man woman birds children".split()


@pytest.fixture(scope="module")
def senteval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentEval folder with a few pairs each of STS12, STS-B and SICK."""
    draw = np.random.default_rng(0)
    pairs = [
        (
            f"the {' '.join(draw.choice(NOUNS, 3))} sat",
            f"a {' '.join(draw.choice(NOUNS, 2))} ran",
            draw.integers(0, 26) / 5,
        )
        for _ in range(20)
    ]
    return write_senteval(tmp_path_factory.mktemp("data"), pairs, "STS12", "STS-B", "SICK")


@pytest.fixture
def sts(sentemb: Command, senteval: Path) -> Command:
    return lambda *arguments: sentemb(
        "eval", "sts", *arguments, "--data-dir", senteval, "--allow-count-mismatch"
    )


def test_table_record_and_export(sts: Command, tiny_bert: Path, tmp_path: Path) -> None:
    code, out, err = sts(
        tiny_bert, "--pooling", "mean", "--sets", "sts12,sickr,sickr-mteb", "--output", tmp_path
    )
    assert code == 0, err
    assert out.count("protocol all") == 1 and "mean" not in out.splitlines()[0]
    assert "SICK-R 10" in out
    assert "SICK-R (MTEB) 30" in out
    (path,) = tmp_path.glob("*.json")
    record = read_record(path)
    assert path.name.endswith(".sts.all.json")
    assert f"{record.score('sts12'):.2f}" in out
    assert [one.items for one in record.datasets] == [40, 10, 30]
    assert [subset.name for subset in record.datasets[0].subsets] == list(STS12_PARTS)
    assert str(path) in err
    assert f"next: sentemb report {tmp_path}" in err


def test_what_was_measured_before_an_error_is_shown(sts: Command, tiny_bert: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    shutil.copytree(tiny_bert, second)
    assert sts(second, "--pooling", "cls", "--sets", "stsb", "-o", tmp_path / "out")[0] == 0
    (record,) = (tmp_path / "out").glob("*.json")
    record.write_text("{")
    code, out, err = sts(tiny_bert, second, "--pooling", "cls", "--sets", "stsb", "-o", tmp_path / "out")
    assert code == 2
    assert "STS-B" in out
    assert record.name in err.splitlines()[-1]


def test_other_languages_show_pearson_first(
    sentemb: Command, shared_data: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    code, out, err = sentemb("eval", "sts", tiny_bert, "--pooling", "mean", "--suite", "multilingual",
        "--sets", "sts17-en-en,stsb-de", "--data-dir", shared_data, "--output", tmp_path,
    )  # fmt: skip
    assert code == 0, err
    record = read_record(tmp_path / f"{tiny_bert.name}-mean.multilingual.wmean.json")
    assert out.startswith("**STS, Pearson")
    first = next(line for line in out.splitlines() if line.startswith(f"| {tiny_bert.name}"))
    expected = [f"{record.score(one.name, protocol='wmean'):.2f}" for one in record.datasets]
    assert first.strip("| ").split(" | ")[-2:] == expected
