"""Runs of the objectives after SimCSE: their data, teachers, several dev sets, and resumption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_pairs
from sentemb.losses import RankEncoderLoss
from sentemb.modules import load
from sentemb.training import Interrupted, train
from sentemb.training.run import load_rows
from tests.training.training_helpers import assert_equal, stop_at

RECIPES = (
    "simcse-plus-plus",
    "rankcse",
    "rankencoder",
    "sncse",
    "promptbert",
    "esimcse",
    "focal-infonce",
    "distillation",
)


@pytest.fixture
def settings_of(tiny_bert: Path) -> Any:
    """Return the settings that a recipe needs with the tiny BERT."""

    def build(recipe: str) -> dict[str, Any]:
        if recipe == "rankcse":
            return {"teachers": [str(tiny_bert), "static-mini"], "teacher_weights": [0.33, 0.67]}
        if recipe == "rankencoder":
            return {"teachers": [str(tiny_bert)], "corpus_size": 20}
        if recipe == "distillation":
            return {"teachers": [str(tiny_bert)]}
        return {"max_length": 30} if recipe == "promptbert" else {}

    return build


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_resumed_run_ends_with_the_weights_of_a_whole_one(
    configure, settings_of, recipe, tmp_path: Path, monkeypatch
) -> None:
    settings = {**settings_of(recipe), "use_last": True}
    whole = configure(recipe, output=str(tmp_path / "whole"), **settings)
    train(whole)
    config = configure(recipe, **settings)
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(Interrupted):
            train(config)
    train(config, resume=True)
    assert_equal(*(load(one.output, device="cpu").state_dict() for one in (whole, config)))
    vectors = load(config.output, device="cpu").encode(["a cat sat", "the dog ran in the park"])
    assert np.isfinite(vectors).all() and not np.allclose(vectors[0], vectors[1])
    record = json.loads((Path(config.output) / "run" / "record.json").read_text())
    assert record["loss"]["name"] == config.loss
    assert not (Path(config.output) / "run" / "teacher").exists()


def test_teachers_encode_what_training_sees_once(
    configure, settings_of, tmp_path: Path, caplog, monkeypatch
) -> None:
    """With as many texts as the corpus of rank vectors if that is more, and those of the cache not again."""
    cached = {"cache_dir": str(tmp_path / "vectors"), "max_steps": 2, "dev": "none"}
    seen: list[int] = []
    set_corpus = RankEncoderLoss.set_corpus
    monkeypatch.setattr(
        RankEncoderLoss,
        "set_corpus",
        lambda loss, corpus: seen.append(len(corpus)) or set_corpus(loss, corpus),
    )
    caplog.set_level("INFO")
    for seed, (recipe, batch, encoded) in enumerate((("rankcse", 8, 16), ("rankencoder", 4, 20))):
        config = configure(
            recipe,
            **settings_of(recipe),
            **cached,
            batch_size=batch,
            output=str(tmp_path / recipe),
            seeds=(seed,),
        )
        train(config)
        assert f"encoding {encoded} texts with the teacher" in caplog.text
        train(config.replace(output=str(tmp_path / f"{recipe}-again")))
        assert " vectors from the cache, 0 encoded" in caplog.text
        caplog.clear()
        assert (tmp_path / recipe / "model.safetensors").read_bytes() == (
            tmp_path / f"{recipe}-again" / "model.safetensors"
        ).read_bytes()
    assert seen == [20, 20]


def test_a_prompted_encoder_becomes_a_plain_one(configure, settings_of, tmp_path: Path) -> None:
    prompted = configure("promptbert", output=str(tmp_path / "prompted"), **settings_of("promptbert"))
    train(prompted)
    few = {"dev": "none", "learning_rate": 0.01, "epochs": 40}
    train(configure("distillation", output=str(tmp_path / "plain"), teachers=[prompted.output], **few))
    plain = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    texts = ["a cat sat", "the dog ran in the park", "birds fly"]
    taught, learned = (
        model.encode(texts, normalize_embeddings=True) for model in (load(prompted.output), plain)
    )
    assert (taught * learned).sum(axis=1).min() > 0.9


def test_negations_are_written_where_there_are_none(configure) -> None:
    rows = load_rows(configure("sncse"))
    assert rows.column_names == ["text", "negation"]
    assert all(row["negation"] != row["text"] for row in rows)


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("rankcse", {"teachers": []}, "RankCSELoss learns from teachers; name encoders with --teachers"),
        ("simcse", {"teachers": ["bert-mini"]}, "SimCSELoss does not learn from teachers; remove --teachers"),
        (
            "rankencoder",
            {"teachers": ["bert-mini"], "teacher_weights": [1, 2]},
            "1 teachers with the weights",
        ),
        ("rankcse", {"teacher_weights": [1, 0]}, "give every teacher a positive weight"),
        ("rankencoder", {"teachers": ["bert-mini"], "corpus_size": 1}, "corpus_size is 1"),
        ("promptbert", {"pooling": "mean"}, "needs an encoder with prompt pooling"),
    ],
)
def test_what_does_not_fit_is_one_line(configure, recipe, options, message) -> None:
    with pytest.raises(InputError, match=message):
        train(configure(recipe, **options))


def test_several_dev_sets_select_by_the_mean(configure, dev_file: Path, tmp_path: Path) -> None:
    lines = dev_file.read_text().splitlines()
    other = tmp_path / "other.tsv"
    other.write_text("\n".join([lines[0], *lines[10:]]) + "\n")
    run = train(configure("simcse", dev=f"{dev_file},{other}"))
    model = load(run.output, device="cpu")
    pairs = [load_scored_pairs(str(file)) for file in (dev_file, other)]
    record = evaluate_pairs(model, pairs)
    scores = [record.score(one.name) for one in pairs]
    assert run.dev_score is not None
    assert 100 * run.dev_score == pytest.approx(np.mean(scores), abs=0.01)
