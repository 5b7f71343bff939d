from __future__ import annotations

from pathlib import Path
from shutil import copy2

import pytest

from tests.cli.conftest import Command

RESULTS = Path(__file__).resolve().parents[2] / "eval" / "results"


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the published records, which are quick to read."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "gold").mkdir()
    for pattern in ("bert-mini-cls.*", "bert-mini-mean.*", "all-MiniLM-L6-v2.transfer.*", "gold/*"):
        for path in RESULTS.glob(pattern):
            copy2(path, folder / path.relative_to(RESULTS))
    return folder


def test_the_verdict_comes_first_and_then_a_table(sentemb: Command, some: Path) -> None:
    code, out, err = sentemb("compare", "runs/bert-mini-cls", "bert-mini-mean", "-r", some, "--draws", 100)
    assert code == 0, err
    assert out.startswith("bert-mini-mean is better than bert-mini-cls by ")
    assert "**bert-mini-mean compared with bert-mini-cls, spearman x 100**" in out
    assert "Williams" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert-mini-cls"], "a comparison needs at least two models; got one"),
        (["bert-mini-cls", "gpt"], "no record of gpt"),
        (["bert-mini-cls", "bert-mini-mean", "--draws", "9"], "9 draws are too few"),
        (["bert-mini-cls", "bert-mini-mean", "--confidence", "95"], "confidence is 95"),
        (["bert-mini-cls", "bert-mini-mean", "--suite", "sport"], "unknown suite 'sport'"),
        (["bert-mini-cls", "all-MiniLM-L6-v2"], "choose one with --preset"),
        (
            ["bert-mini-cls", "all-MiniLM-L6-v2", "--suite", "transfer", "--preset", "x"],
            "no record of the preset x",
        ),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, sentemb: Command, some: Path) -> None:
    code, _, err = sentemb("compare", *arguments, "-r", some)
    assert code == 2
    assert message in err
