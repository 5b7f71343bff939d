"""Classifiers: predictions, pairs in one sequence, and a folder that outlives the process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb.classification import Classifier, ClassifierRun
from sentemb.classification.classifier import compute
from sentemb.errors import InputError
from sentemb.modules import LinearHead, load
from tests.classification.toy import toy_set

TEXTS = ["cat dog", "the man plays guitar", "", "red apple house", "cat dog"]
READ_AGAIN = """
import json, sys, numpy
from sentemb.classification import Classifier
for folder, texts in json.loads(sys.argv[1]).items():
    numpy.save(folder + ".npy", Classifier.load(folder, device="cpu").predict_proba(texts))
"""


def test_predictions_are_labels_and_probabilities(trained: ClassifierRun) -> None:
    classifier = trained.classifier
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (5, 3)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    labels = classifier.predict(TEXTS)
    assert labels == [classifier.labels[row.argmax()] for row in probabilities]
    assert (labels[0], labels[1], labels[3]) == ("animal", "person", "thing")
    assert np.array_equal(probabilities[0], probabilities[4])
    assert classifier.predict([]) == []


def test_batches_order_and_modes_change_nothing_but_rounding(trained: ClassifierRun) -> None:
    texts, classifier = toy_set(150).texts, trained.classifier
    classifier.encoder.train()
    classifier.head.eval()
    first = classifier.logits(TEXTS)  # without dropout
    assert np.array_equal(first, classifier.logits(TEXTS))
    assert all(module.training for module in classifier.encoder.modules())
    assert not classifier.head.training
    classifier.encoder.eval()
    alone = np.concatenate([trained.classifier.logits([text]) for text in texts[:5]])
    np.testing.assert_allclose(trained.classifier.logits(texts)[:5], alone, rtol=1e-4, atol=1e-5)
    backwards = trained.classifier.logits(texts[::-1])[::-1]
    np.testing.assert_allclose(trained.classifier.logits(texts), backwards, rtol=1e-4, atol=1e-5)


PAIR = ("the cat", "a dog sat on the mat")


@pytest.mark.parametrize("model", ["small_bert", "minilm"])
def test_a_pair_is_one_sequence_in_which_the_longer_text_is_cut(
    model: str, request: pytest.FixtureRequest
) -> None:
    encoder = load(request.getfixturevalue(model), pooling="cls", device="cpu")
    seen: list[dict[str, Any]] = []

    def look(output: dict[str, Any]) -> Tensor:
        seen.append(output)
        return output["sentence_embedding"]

    compute(encoder, [PAIR], look, max_length=8)
    tokens = encoder.tokenizer.convert_ids_to_tokens(seen[0]["input_ids"][0])
    assert tokens == ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "sat", "[SEP]"]
    # Segment ids are present if the published tokenizer has them, such as BERT's.
    if model == "minilm":
        assert seen[0]["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    else:
        assert "token_type_ids" not in seen[0]


def test_pairs_are_learnt_from_the_second_text(trained_on_pairs: ClassifierRun) -> None:
    assert trained_on_pairs.run.dev_score is not None
    assert trained_on_pairs.run.dev_score > 0.75
    assert trained_on_pairs.classifier.predict([("the children", "cat dog fly")]) == ["animal"]


def test_a_new_process_predicts_the_same_bits(
    trained: ClassifierRun, trained_on_pairs: ClassifierRun, tmp_path: Path
) -> None:
    inputs = {
        str(tmp_path / "texts"): TEXTS,
        str(tmp_path / "pairs"): [("the children", text) for text in TEXTS],
    }
    classifiers = [trained.classifier, trained_on_pairs.classifier]
    for classifier, folder in zip(classifiers, inputs, strict=True):
        classifier.save(folder)
    subprocess.run([sys.executable, "-c", READ_AGAIN, json.dumps(inputs)], check=True)
    for classifier, (folder, texts) in zip(classifiers, inputs.items(), strict=True):
        assert np.array_equal(np.load(folder + ".npy"), classifier.predict_proba(texts))


def test_the_folder_is_a_plain_sentence_transformer_without_pickles(
    trained: ClassifierRun, tmp_path: Path
) -> None:
    trained.classifier.save(tmp_path / "saved")
    for folder in (tmp_path / "saved", trained.run.output):
        encoder = SentenceTransformer(str(folder), device="cpu")
        expected = trained.classifier.encoder.encode(TEXTS)
        np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
        assert Classifier.load(folder, device="cpu").predict(TEXTS) == trained.classifier.predict(TEXTS)
        assert not [file for file in folder.rglob("*") if file.suffix in (".bin", ".pt", ".pkl")]
    with pytest.raises(InputError, match="already exists"):
        trained.classifier.save(tmp_path / "saved")


def _truncate(folder: Path) -> None:
    file = folder / "classifier" / "head.safetensors"
    file.write_bytes(file.read_bytes()[:-4])


def _rewrite(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "classifier" / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder / "classifier"), "is not a classifier"),
        (lambda folder: (folder / "classifier" / "head.safetensors").unlink(), "cannot be read"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot load"),
        (_truncate, "cannot be read"),
        (_rewrite(labels=["animal", "thing"]), "2 labels for a head with 3"),
        (_rewrite(labels="animal"), "is not a valid configuration of a classifier"),
        (_rewrite(version=2), "has the format version 2"),
        (_rewrite(max_length=1000), r"classifier.config\.json: max_length 1000 is not supported"),
        (
            _rewrite(head={"kind": "linear", "width": 10**13, "classes": 3}),
            r"config\.json is not a valid configuration",
        ),
        (_rewrite(head={"kind": "linear", "width": 16, "classes": 2}), "do not match its"),
        (_rewrite(head={"kind": "forest"}), "unknown classification head 'forest'"),
    ],
)
def test_a_damaged_folder_is_one_clear_error(
    trained: ClassifierRun, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained.run.output, folder, ignore=shutil.ignore_patterns("run"))
    damage(folder)
    with pytest.raises(InputError, match=message):
        Classifier.load(folder, device="cpu")


def test_what_cannot_be_classified_is_one_clear_error(
    trained: ClassifierRun, trained_on_pairs: ClassifierRun
) -> None:
    with pytest.raises(InputError, match="but got a single string"):
        trained.classifier.predict("cat dog")
    with pytest.raises(InputError, match="but got None; pass a list"):
        trained.classifier.predict(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"input 1 is .*pass a text"):
        trained.classifier.predict(["cat", ("cat", "dog")])
    with pytest.raises(InputError, match="pass a pair"):
        trained_on_pairs.classifier.predict(["cat"])
    with pytest.raises(InputError, match="absent is not a classifier"):
        Classifier.load("absent")
    encoder = trained.classifier.encoder
    with pytest.raises(InputError, match="one distinct name"):
        Classifier(encoder, LinearHead(16, 2), ("same", "same"))


def test_inputs_that_are_cut_are_counted(trained: ClassifierRun, trained_on_pairs: ClassifierRun) -> None:
    for run, special in ((trained, 2), (trained_on_pairs, 3)):
        classifier = run.classifier
        classifier.max_length = 20 + special
        texts = ["a " * 20, "a " * 21, "\u00fc " * 21]
        pairs = [
            (f"{'cat ' * 10}\u00fc", "a " * 9),
            ("cat " * 10, f"{'a ' * 10}\u00fc"),
            ("cat", "dog " * 20),
        ]
        assert classifier.count_cut(pairs if classifier.pairs else texts) == 2
