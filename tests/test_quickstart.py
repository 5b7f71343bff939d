"""The quickstart runs through every room and leaves a model, an index and a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.cli.main import run
from sentemb.search import SearchIndex


def quickstart(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        run(["quickstart", *arguments])
    return int(left.value.code or 0)


@pytest.fixture(scope="module")
def made(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickstart")
    sentences = folder / "mine.txt"
    sentences.write_text(
        "".join(f"the cat sat on mat {number}\ntwo birds fly {number}\n" for number in range(20))
    )
    assert (
        quickstart("--base", str(tiny_bert), "--data", str(sentences), "--output", str(folder / "out")) == 0
    )
    return folder / "out"


def test_it_leaves_an_encoder_that_plain_sentence_transformers_loads(made: Path) -> None:
    from sentence_transformers import SentenceTransformer

    assert SentenceTransformer(str(made / "model"), device="cpu").encode(["a cat"]).shape == (1, 16)


def test_the_index_holds_the_documentation_of_the_standard_library(made: Path) -> None:
    (hits,) = SearchIndex.load(made / "index").search(["sort a dictionary"], 3)
    assert len(hits) == 3
    assert SearchIndex.load(made / "index").manifest.documents > 2000


def test_the_page_shows_table_curve_map_and_answers(made: Path) -> None:
    page = (made / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    for text in ("before training", "after SG-OPT", "how do I sort a dictionary by value"):
        assert text in page


def test_what_is_there_is_kept(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quickstart("--output", str(made)) == 2
    assert "--overwrite" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    assert quickstart("--output", str(tmp_path / "mine"), "--overwrite") == 2
    assert (tmp_path / "mine" / "thesis.tex").exists()
