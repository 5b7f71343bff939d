"""`sentemb data back-translate` and `noisy-copies`, from texts to what reads them."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.cli.main import run
from sentemb.data import load_columns
from sentemb.data.sampling import read_copies
from tests.augmentation.conftest import build_marian, build_t5
from tests.cli.conftest import Command

SENTENCES = ["a cat sat on the mat", "two birds fly", "the dog ran", "a cat sat on the mat", "children eat"]
PROGRAM = Path(__file__).resolve().parents[2] / "training" / "back_translation.py"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    there = build_t5(tmp_path_factory.mktemp("there"), seed=1)
    back = build_marian(tmp_path_factory.mktemp("back"), seed=2)
    return ["--forward", str(there), "--backward", str(back), "--max-new-tokens", "6", "--device", "cpu"]


def test_from_texts_to_a_trained_encoder(
    models: list[str],
    tmp_path: Path,
    write_file: Callable[[str, str], Path],
    sentemb: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sentence_transformers import SentenceTransformer

    source = write_file("texts.txt", "\n".join(SENTENCES) + "\n")
    output = tmp_path / "back.csv"
    arguments = ["back-translate", str(source), *models, "--beams", "3", "-o", str(output)]
    code, out, error = sentemb("data", *arguments)
    assert (code, error) == (0, f"next: sentemb train bt --data {output} --output FOLDER\n")
    assert out.startswith(f"{output}: ") and "5 texts, 4 unique" in out
    rows = load_columns(output, ["text", "back_translation"])
    assert set(rows["text"]) <= set(SENTENCES) and len(rows) > 1
    manifest = json.loads((tmp_path / "back.csv.manifest.json").read_text())
    assert manifest["forward"]["decoding"] == {"beams": 3, "max_new_tokens": 6}
    assert manifest["rows"] == len(rows) == 5 - manifest["counts"]["empty"]
    assert not list(tmp_path.glob(".back.csv.*"))  # the work is done

    model = tmp_path / "model"
    training = ["--base", "bert-mini", "--data", str(output), "--dev", "none", "--max-steps", "2"]
    monkeypatch.setattr(sys, "argv", [PROGRAM.name, *training, "--output", str(model)])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert left.value.code == 0
    assert np.isfinite(SentenceTransformer(str(model), device="cpu").encode(SENTENCES)).all()


def test_an_interrupt_keeps_what_is_translated(
    sentemb: Command,
    models: list[str],
    tmp_path: Path,
    write_file: Callable[[str, str], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sentemb.data import columns

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    source = write_file("texts.txt", "\n".join(SENTENCES) + "\n")
    arguments = ["back-translate", str(source), *models, "--beams", "2", "-o", str(tmp_path / "back.csv")]
    with monkeypatch.context() as patched:
        patched.setattr(columns, "write_table", interrupt)
        with pytest.raises(SystemExit) as left:
            run(["data", *arguments])
    assert left.value.code == 130
    kept = tmp_path / ".back.csv.translating"
    assert f"kept in {kept}" in capsys.readouterr().err
    assert len(list(kept.glob("*.sqlite"))) == 2
    assert sentemb("data", *arguments)[0] == 0
    assert not kept.exists()


def test_noisy_copies(
    models: list[str], tmp_path: Path, write_file: Callable[[str, str], Path], sentemb: Command
) -> None:
    source = write_file("own.tsv", "text\tlabel\n" + "".join(f"{s}\t1\n" for s in SENTENCES[:3]))
    output = tmp_path / "copies.csv"
    common = ["noisy-copies", str(source), *models, "--overwrite", "-o", str(output)]
    code, out, _ = sentemb("data", *common, "--columns", "text", "--temperatures", "0.3,0.9", "--copies", "2")
    assert code == 0
    assert "temperature 0.3: 6 texts, 3 unique" in out
    copies = read_copies(output, temperature="temperature")
    assert {copy.temperature for copy in copies} == {0.3, 0.9}
    assert {copy.original for copy in copies} <= {0, 1, 2}
    made = json.loads((tmp_path / "copies.csv.manifest.json").read_text())["temperatures"]
    assert made["0.9"]["backward"]["decoding"]["temperature"] == 0.9
    for wrong, words in (
        ([], "name them with --columns"),
        (["--columns", "lable"], "lable"),
        (["--columns", "text", "--temperatures", "hot"], "not a list of unique numbers"),
        (["--columns", "text", "--temperatures", "0.3,0.3"], "not a list of unique numbers"),
        (["--columns", "text", "--temperatures", "0"], "temperature is 0.0"),
    ):
        code, _, error = sentemb("data", *common, *wrong)
        assert code == 2 and words in error, wrong


def test_only_the_rows_that_the_experiment_draws(
    models: list[str], shared_data: Path, tmp_path: Path, sentemb: Command
) -> None:
    from sentemb.experiments.experiment import Setting
    from sentemb.experiments.labelled_sets import LabelledSets, noise_rows

    data = LabelledSets(shared_data, rule="scl")
    pool = data.pool("rte")
    rows = noise_rows(pool, (0, 1))
    drawn = [data.splits("rte", Setting("noise", 0), seed).train for seed in (0, 1)]
    texts = {pool.train.texts[row] for row in rows.tolist()}
    assert 100 < len(rows) <= 200 and texts == {text for part in drawn for text in part.texts}
    output = tmp_path / "rte.jsonl"
    options = ["--seeds", "0,1", "--temperatures", "0.5", "--copies", "1", "--data-dir", str(shared_data)]
    options += ["--batch-size", "64"]
    marian_first = ["--forward", models[3], "--backward", models[1], *models[4:]]
    code, _, error = sentemb("data", "noisy-copies", "rte", *marian_first, *options, "-o", str(output))
    assert code == 0, error
    assert "longer than" in error  # it takes 24 tokens
    copies = read_copies(output, pair="augmented_pair", temperature="temperature")
    assert {copy.original for copy in copies} <= set(rows.tolist())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "has the columns a, b"),
        (["--column", "a", "--beams", "0"], "beams is 0"),
        (["--column", "a", "--source-language", "en"], "languages"),
        (["--column", "a", "--forward", "{bert}"], "is not a translation model"),
        (["--column", "a", "--batch-size", "0"], "batch_size is 0"),
    ],
)
def test_a_user_error_is_one_line(
    models: list[str],
    tiny_bert: Path,
    write_file: Callable[[str, str], Path],
    tmp_path: Path,
    sentemb: Command,
    arguments: list[str],
    words: str,
) -> None:
    texts, output = write_file("t.csv", "a,b\na cat,the cat\na dog,the dog\n"), tmp_path / "b.csv"
    filled = [one.format(bert=tiny_bert) for one in arguments]
    code, _, error = sentemb("data", "back-translate", texts, *models, *filled, "-o", output)
    assert code == 2
    assert words in error.splitlines()[-1]
    assert not output.exists()
