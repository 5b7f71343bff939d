"""The quickstart runs through every room and leaves a model, an index and a page."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from sentemb.cli.main import run
from sentemb.cli.quickstart import MARKER, clear, side_by_side
from sentemb.data.bundled_text import bundled_questions, stdlib_documents
from sentemb.modules.source import find_source
from sentemb.quickstart import Answers, search_in_all_modes
from sentemb.search import SearchIndex, read_documents
from tests.processes import command, start
from tests.waiting import wait_for


def quickstart(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        run(["quickstart", *arguments])
    return int(left.value.code or 0)


def interrupted(folder: Path) -> None:
    """Leave the files of a quickstart that was stopped while it trained."""
    (folder / "model" / "run").mkdir(parents=True)
    (folder / MARKER).touch()


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of many words whose vectors are random: adapting it helps beyond doubt."""
    tokenizer = Tokenizer.from_file(f"{find_source('bert-mini').address}/tokenizer.json")
    weights = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    folder = tmp_path_factory.mktemp("static") / "random"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)]).save_pretrained(
        str(folder), create_model_card=False
    )
    return folder


@pytest.fixture(scope="module")
def made(tiny_bert: Path, static: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quickstart on a few sentences and some of the documents, in the place of an interrupted one."""
    folder = tmp_path_factory.mktemp("quickstart")
    rows = (f"the cat sat on mat {number}\ntwo birds fly {number}\n" for number in range(20))
    (folder / "few.txt").write_text("".join(rows))
    interrupted(folder / "out")
    output = ("--output", str(folder / "out"), "--overwrite")
    answers = {name for question in bundled_questions() for name in question.answers}
    some = [one for number, one in enumerate(stdlib_documents()) if one.id in answers or number % 10 == 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sentemb.quickstart.stdlib_documents", lambda: some)
        patch.setattr("sentemb.quickstart.bundled_sentences_file", lambda: folder / "few.txt")
        assert quickstart("--base", str(tiny_bert), "--model", str(static), *output) == 0
    return folder / "out"


def test_it_leaves_a_model_documents_and_an_index_of_the_adapted_encoder(made: Path) -> None:
    assert SentenceTransformer(str(made / "model"), device="cpu").encode(["a cat"]).shape == (1, 16)
    documents = list(read_documents(str(made / "documents.jsonl"), id_column="id"))
    assert all(one.id and one.text for one in documents)
    index = SearchIndex.load(made / "index")
    assert len(documents) == index.manifest.documents > 500
    assert len(index.search(["sort a dictionary"], 3)[0]) == 3
    assert (made / "adapted" / "README.md").exists()
    assert Path(str(index.manifest.encoder.name)).name == "adapted"
    fitted = index.manifest.hybrid
    assert fitted is not None and fitted.judged and fitted.queries == 60


def test_the_page_shows_table_curve_map_and_answers_in_every_way(made: Path) -> None:
    page = (made / "index.html").read_text(encoding="utf-8")
    assert page.count('<figure role="img"') == 3
    for text in ("before training", "after SG-OPT", "how do I sort a dictionary by value", "held-out"):
        assert text in page
    first = page.partition("how do I sort a dictionary by value</h3>")[2].partition("</section>")[0]
    assert re.findall("<h4>(.*?)</h4>", first) == ["keyword", "random", "hybrid", "adapted hybrid"]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Documents of three modules, asked with an encoder that knows which letters a text has."""
    modules = {"shutil", "os", "os.path", "builtins", "threading", "random", "re", "json"}
    documents = [one for one in stdlib_documents() if one.metadata["module"] in modules]
    return search_in_all_modes(documents, SearchIndex.build(documents, letters))


def letters(texts: list[str]) -> np.ndarray:
    return np.array(
        [[1 + text.lower().count(letter) for letter in ascii_lowercase] for text in texts], np.float32
    )


def test_scores_are_those_of_the_ranks(answers: Answers) -> None:
    for way in ("keyword", "letters", "hybrid"):
        for split in ("dev", "test"):
            ranks = [
                rank
                for rank, question in zip(answers.ranks[way], answers.questions, strict=True)
                if question.split == split
            ]
            hits, reciprocal, low = (
                100 * np.mean([rank > 0 for rank in ranks]),
                100 * np.mean([1 / rank if rank else 0 for rank in ranks]),
                answers.scores[way, split, "hit@10"].low,
            )
            assert answers.scores[way, split, "hit@10"].value == pytest.approx(hits)
            assert answers.scores[way, split, "mrr@10"].value == pytest.approx(reciprocal)
            assert low <= hits <= answers.scores[way, split, "hit@10"].high


def test_questions_that_no_document_answers_are_left_out(answers: Answers) -> None:
    names = {name for question in answers.questions for name in question.answers}
    assert 20 < len(answers.questions) < len(bundled_questions()) / 2
    assert "shutil.rmtree" in names and "glob.glob" not in names


def test_what_is_printed_fits_a_terminal(answers: Answers) -> None:
    _, question, *lines = side_by_side(answers, 0).splitlines()
    assert question == answers.questions[0].text and max(map(len, lines)) <= 100
    assert len(lines) == 4 and lines[0].split() == ["keyword", "letters", "hybrid"]


def test_a_stopped_one_says_how_to_go_on_and_leaves_no_hidden_folder(tmp_path: Path) -> None:
    folder, log = tmp_path / "out", tmp_path / "log"
    process = start(command, ["quickstart", "--output", str(folder)], log=log)
    wait_for((folder / "documents.jsonl").exists, alive=process.is_alive)
    os.kill(process.pid or 0, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert f"{folder}: stopped; run the command again with --overwrite" in " ".join(log.read_text().split())
    assert [path.name for path in folder.rglob(".*")] == [MARKER]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "log"}


def test_an_earlier_one_is_kept_and_files_next_to_it_as_well(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quickstart("--output", str(made)) == 2
    assert "contains an earlier quickstart" in capsys.readouterr().err
    interrupted(tmp_path)
    (tmp_path / "mine.txt").write_text("a cat\na dog\n")
    clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", MARKER}
