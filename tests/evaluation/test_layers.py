"""The layer map compared with the evaluation of single poolings, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.cli.main import run
from sentemb.encoding import load_encoder
from sentemb.encoding.resolve import LayerEncoder
from sentemb.errors import InputError
from sentemb.evaluation.layers import evaluate_layers
from sentemb.evaluation.record import load_records, to_frame
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.report.analysis import layer_scores, layer_tables
from sentemb.report.table import ABSENT

TEXTS = [
    "a cat sat on the mat",
    "two birds fly over the house",
    "the dog ran in the park quickly",
    "children eat red apple",
    "a man plays guitar",
    "the woman is not sleeping",
]


@pytest.fixture
def data_dir(write_file: Callable[[str, str], Path], tmp_path: Path) -> Path:
    """Nine pairs of six sentences as STS-B's test set."""
    pairs = [(0, 1), (2, 3), (4, 5), (0, 2), (1, 3), (4, 4), (5, 0), (3, 4), (2, 5)]
    rows = "".join(
        f"main\tx\t2015\t{number}\t{(7 * number) % 9 / 2}\t{TEXTS[first]}\t{TEXTS[second]}\n"
        for number, (first, second) in enumerate(pairs)
    )
    write_file("data/senteval/downstream/STS/STSBenchmark/sts-test.csv", rows)
    return tmp_path / "data"


def test_the_last_layer_scores_what_the_poolings_score(tiny_bert: Path, data_dir: Path) -> None:
    found = evaluate_layers(tiny_bert, data_dir=data_dir, check_rows=False, device="cpu")
    pairs = load_sets(["stsb"], data_dir=data_dir, check_rows=False)
    scores, layer, best_pooling = layer_scores(found, found.dataset("stsb"))
    assert (found.details["unique"], found.dataset("stsb").items) == (6, 9)
    assert list(scores) == ["cls", "mean", "max"]
    assert [len(curve) for curve in scores.values()] == [4] * 3
    for pooling in ("cls", "mean", "max"):
        record = evaluate_pairs(load_encoder(tiny_bert, pooling=pooling, device="cpu"), pairs)
        assert scores[pooling][-1] == pytest.approx(record.score("stsb"), abs=1e-9)
    assert scores["cls"][0] is None  # all embedding outputs of [CLS] are equal
    best = max(one.value for one in found.scores)
    assert scores[best_pooling][layer] == best
    (table,) = layer_tables(found)
    assert table.rows[0][:2] == ("0", ABSENT)
    assert f"**{best:.2f}**" in table.markdown()


def test_every_sentence_is_encoded_once_and_little_is_held(
    tiny_bert: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate_layers(tiny_bert, data_dir=data_dir, check_rows=False, device="cpu")
    counted: list[str] = []
    encode = LayerEncoder.encode

    def counting(self: LayerEncoder, some: list[str], **options: bool) -> np.ndarray:
        counted.extend(some)
        return encode(self, some, **options)

    monkeypatch.setattr(LayerEncoder, "encode", counting)
    monkeypatch.setattr("sentemb.evaluation.layers._BYTES_AT_ONCE", 1)
    found = evaluate_layers(tiny_bert, data_dir=data_dir, check_rows=False, device="cpu")
    assert sorted(counted) == sorted(TEXTS)
    assert found.scores == whole.scores


def test_a_live_model_is_left_as_it_is(tiny_encoder: SentenceTransformer) -> None:
    tiny_encoder.train()
    LayerEncoder(tiny_encoder).encode(TEXTS)
    assert tiny_encoder.training and tiny_encoder[0].training
    assert not tiny_encoder[0].model.config.output_hidden_states
    assert "all_layer_embeddings" not in tiny_encoder(tiny_encoder.preprocess(TEXTS[:1]))
    with pytest.raises(InputError, match="unknown pooling 'meen' of a layer; choose among cls"):
        LayerEncoder(tiny_encoder, poolings=("cls", "meen"))


def test_the_command_writes_a_record_and_a_figure(
    tiny_bert: Path, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    options = ("--data-dir", str(data_dir), "--allow-count-mismatch", "-o", str(output))
    with pytest.raises(SystemExit) as left:
        run(["analyse", "layers", str(tiny_bert), *options])
    assert left.value.code == 0
    assert "| layer | cls | mean | max |" in capsys.readouterr().out
    (record,), (figure,) = load_records(output), output.glob("*.layers.test.png")
    assert (record.suite, record.details["unique"]) == ("layers", 6)
    frame = to_frame([record])
    assert {"mean, layer 0", "cls, layer 3"} < {*frame["protocol"]} and "cls, layer 0" not in {
        *frame["protocol"]
    }
    assert (frame["value"].abs() <= 100).all()
    with pytest.raises(SystemExit) as left:
        run(["analyse", "layers", str(tiny_bert), *options])
    assert left.value.code == 2 and "add --overwrite" in capsys.readouterr().err
    assert figure.read_bytes().startswith(b"\x89PNG")
