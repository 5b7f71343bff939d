"""Transfer tasks made of users' own labelled files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.comparison import compare
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.runner import Options, load_suites, run_suites
from sentemb.evaluation.systems import system_of
from sentemb.evaluation.transfer import evaluate_transfer, load_tasks
from sentemb.evaluation.transfer.evaluate import checksum_of_task
from sentemb.report.results import transfer_table
from tests.evaluation.conftest import letters

Write = Callable[[str, str], Path]
WORDS = {"animal": ("cat", "dog", "bird"), "colour": ("red", "blue", "green")}


def constant(texts: list[str]) -> np.ndarray:
    """Vectors that tell nothing."""
    return np.ones((len(texts), 4), dtype=np.float32)


def table(rows: int = 42) -> str:
    """As many rows of either class, the texts of which differ in their words."""
    random = np.random.default_rng(0)
    lines = [
        f"{' '.join(random.choice(words, random.integers(1, 4)))} {row},{label}"
        for row in range(rows // 2)
        for label, words in WORDS.items()
    ]
    return "\n".join(["text,label", *lines, ""])


def test_a_file_is_cross_validated_and_its_records_compare(write_file: Write, tmp_path: Path) -> None:
    path = write_file("mine.csv", table())
    loaded = load_suites(["transfer"], Options(tasks=[str(path)], preset="logreg"))
    for function in (letters, constant):
        run_suites(load_encoder(function), loaded, output=tmp_path / "records")
    weak, good = load_records(tmp_path / "records")
    (dataset,) = good.datasets
    assert (dataset.name, dataset.split, dataset.items) == ("mine", "all", 42)
    assert dataset.classes == ("animal", "colour")
    assert len(good.details["penalties"]["mine"]) == 10
    predicted, gold = load_predictions(good)
    assert good.score("mine") == pytest.approx(100 * np.mean(predicted["mine"] == gold["mine"]), abs=5)
    assert good.score("mine") > 90 > 60 > weak.score("mine")
    assert compare(system_of([weak], "constant"), system_of([good], "letters")).sets[0].interval[0] > 0
    assert transfer_table([weak, good], "logreg").header == ("model", "seeds", "mine")


def test_pairs_and_catalogue_tasks_stand_beside(write_file: Write, shared_data: Path) -> None:
    rows = [f"a {word},the {word if same else 'sea'},{same}" for word in "abcdefghijklmno" for same in (0, 1)]
    pairs = write_file("pairs.tsv", "\n".join(["sentence1,sentence2,label", *rows]).replace(",", "\t"))
    (record,) = evaluate_transfer(letters, [str(pairs), "trec"], preset="simcse-fast", data_dir=shared_data)
    assert [one.name for one in record.datasets] == ["pairs", "trec"]
    assert record.score("pairs") > 50


def test_a_changed_text_is_other_data(write_file: Write) -> None:
    before, after = (
        checksum_of_task("mine", load_tasks([str(write_file("mine.csv", one))])["mine"])
        for one in (table(), table().replace(" 20,", " 21,"))
    )
    assert before != after


ROWS = table(28)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROWS + "a cow,\n", "mine.csv:30: column 'label': the label is missing"),
        (ROWS.replace("label", "star"), "mine.csv does not have a column 'label'; its columns are text"),
        ("text,label\na,x\nb,x\n", "mine.csv: all rows have the class 'x'"),
        (ROWS + "a cow,beast\n", "class 'beast' has 1 rows, but 5-fold cross-validation needs 7"),
        (table(24)[:-1], "24 rows are too few for the validation split"),
        ("text,label\n", "mine.csv is empty"),
    ],
)
def test_bad_files_are_refused_before_anything_is_encoded(
    write_file: Write, content: str, message: str
) -> None:
    path = write_file("mine.csv", content)
    with pytest.raises(InputError) as error:
        load_suites(["transfer"], Options(tasks=[str(path)], preset="simcse-fast"))
    assert message in str(error.value)


def test_names_that_collide_are_refused(write_file: Write) -> None:
    trec, mine = write_file("trec.csv", ROWS), write_file("mine.csv", ROWS)
    with pytest.raises(InputError, match="has the same name as the task trec"):
        evaluate_transfer(letters, [str(trec)])
    with pytest.raises(InputError, match="task mine is listed twice"):
        evaluate_transfer(letters, [str(mine), str(write_file("other/mine.csv", ROWS))])
