"""`sentemb train pairs`: parts without leaks, prompts, the verdict, and a base that may win."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer

from sentemb.data.labelled import text_key
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference
from sentemb.modules import load
from sentemb.training import Interrupted, PairsConfig, Run, resolve, train
from sentemb.training.folder import RunFolder
from sentemb.training.pairs import PairsSession, compare_on_questions, hold_out_pairs
from sentemb.training.run import _finished
from tests.training.training_helpers import make_sentences, stop_at

# Each pair is three words, in two orders, between others.
Configure = Callable[..., PairsConfig]
NOUNS, VERBS = ("cat", "dog", "man", "woman", "children", "birds"), ("sat", "ran", "plays", "eat", "fly")
THINGS = ("mat", "park", "guitar", "apple", "house")
FACTS = [(noun, verb, thing) for noun in NOUNS for verb in VERBS for thing in THINGS]
PAIRS = [(f"{noun} {verb} {thing}", f"the {thing} {verb} a {noun}") for noun, verb, thing in FACTS]  # 150


def dataset(rows: list[tuple[str, ...]]) -> Dataset:
    names = ("anchor", "positive", "negative")[: len(rows[0])]
    return Dataset.from_list([dict(zip(names, row, strict=True)) for row in rows])


def keys(rows: Dataset, columns: tuple[str, ...] = ("anchor", "positive")) -> set[str]:
    return {text_key(text) for name in columns for text in rows[name]}


@pytest.fixture
def encoder(tiny_bert: Path, tmp_path: Path) -> Path:
    """A finished encoder with mean pooling and prompts."""
    model = load(str(tiny_bert), pooling="mean")
    model.prompts = {"query": "woman: ", "document": "man: "}
    model.save_pretrained(str(tmp_path / "encoder"))
    return tmp_path / "encoder"


@pytest.fixture
def configure(encoder: Path, tmp_path: Path) -> Configure:
    def build(rows: list[tuple[str, ...]] = PAIRS, **overrides: Any) -> PairsConfig:
        names = ("question", "answer", "negative")[: len(rows[0])]
        data = tmp_path / "pairs.jsonl"
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        data.write_text("\n".join(lines) + "\n")
        values = {"base": str(encoder), "data": str(data), "output": str(tmp_path / "mine"), "batch_size": 16}
        return resolve("pairs", overrides={**values, "learning_rate": 3e-3, "epochs": 2, **overrides})

    return build


def test_no_part_shares_a_text_with_another() -> None:
    """Questions share answers, and answers questions, in upper and lower case."""
    shared = [(f"q{n}", f"a{n // 3}") for n in range(240)]
    shared += [(f"Q{n}", f"b{n}") for n in range(0, 240, 4)]
    parts = hold_out_pairs(dataset(shared), share=0.15, seed=1)
    train_keys = keys(parts.train)
    held = [
        {*one.query_ids, *(one.document_ids[n] for n in one.judged[:, 1])} for one in (parts.dev, parts.test)
    ]
    assert all(train_keys.isdisjoint(one) for one in held) and held[0].isdisjoint(held[1])
    assert min(len(parts.dev), len(parts.test)) >= 30
    rows_of_held = sum(text_key(question) in held[0] | held[1] for question, _ in shared)
    assert len(parts.train) == len(shared) - rows_of_held
    # All passages of the file are searched, and all that belong to a question are relevant.
    assert {*parts.test.document_ids} == {text_key(answer) for _, answer in shared}
    pairs = {(text_key(a), text_key(b)) for a, b in shared}
    judged = {(parts.test.query_ids[q], parts.test.document_ids[d]) for q, d, _ in parts.test.judged}
    assert judged == {pair for pair in pairs if pair[0] in {*parts.test.query_ids}}
    # Questions of one group are one cluster.
    groups = dict(zip(parts.test.query_ids, parts.groups, strict=True))
    for first, second in pairs:
        for other, answer in pairs:
            if answer == second and {first, other} <= groups.keys():
                assert groups[first] == groups[other]


def test_hard_negatives_that_are_held_out_are_replaced_by_training_passages() -> None:
    rows = [(f"q{n}", f"a{n}", f"a{(n + 1) % 200}") for n in range(200)]
    parts = hold_out_pairs(dataset(rows), share=0.15, seed=1)
    passages = keys(parts.train, ("positive",))
    assert parts.replaced > 0
    assert keys(parts.train, ("negative",)) <= passages
    assert all(row["negative"] != row["positive"] for row in parts.train)
    kept = [row for row in parts.train if int(row["negative"][1:]) == (int(row["anchor"][1:]) + 1) % 200]
    assert len(kept) >= len(parts.train) - parts.replaced


def test_the_verdict_draws_groups_of_questions(tiny_encoder: SentenceTransformer) -> None:
    """Four wordings of a question say little more than one: the interval is wider than of four questions."""
    other = copy.deepcopy(tiny_encoder)
    torch.manual_seed(0)
    for weight in other.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    words = make_sentences(150, seed=3)
    # The tokenizer knows none of the marks, so that all wordings have one vector.
    many = [(f"{words[n // 4]} {'.!?,'[n % 4]}", f"{words[n // 4]} dog") for n in range(600)]
    parts = hold_out_pairs(dataset(many), share=0.15, seed=1)
    assert len({*parts.groups}) < len(parts.test) / 2
    alone = parts._replace(groups=np.arange(len(parts.test)))
    widths = []
    for one in (parts, alone):
        low, high = compare_on_questions(tiny_encoder, other, one).interval or (0, 0)
        widths.append(high - low)
    assert widths[0] > 1.3 * widths[1] > 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(f"q{n}", f"a{n}") for n in range(99)],
            "99 questions are too few to measure whether training helps",
        ),
        ([(f"q{n}", "a") for n in range(200)], "the 200 questions share too many passages"),
        (
            [(f"q{n}", f"a{n // 2000}") for n in range(4000)],
            "share too many passages",
        ),
    ],
)
def test_what_cannot_be_held_out_is_refused(rows: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        hold_out_pairs(dataset(rows), share=0.15, seed=1)
    assert "--held-out 0" in str(caught.value)


def test_training_finds_held_out_questions_better(configure: Configure, tmp_path: Path) -> None:
    run = train(configure(epochs=6))
    assert run.step > 0 and run.test is not None and run.test.size > 0
    assert run.dev_score is not None and run.base_score is not None and run.dev_score > run.base_score
    assert f"NDCG@10 on {run.test.items} held-out questions (95 % interval " in run.verdict()
    record = json.loads((tmp_path / "mine" / "run" / "record.json").read_text())
    assert record["dev"]["verdict"] == run.verdict()
    assert record["dev"]["test"]["scores"] == list(run.test.scores)
    assert record["data"]["rows"] == 150
    assert (
        record["data"]["trained_on"] + record["data"]["dev_questions"] + record["data"]["test_questions"]
        == 150
    )
    # What is delivered is what was measured.
    card = (tmp_path / "mine" / "README.md").read_text()
    assert run.verdict() in card and "NDCG@10 on held-out questions (best of" in card
    model = SentenceTransformer(str(tmp_path / "mine"), device="cpu")
    assert model.prompts["query"] == "woman: "
    parts = hold_out_pairs(dataset(PAIRS), share=0.15, seed=1)
    base = load(str(tmp_path / "encoder"))
    assert compare_on_questions(base, model, parts).scores == pytest.approx(run.test.scores)
    assert _finished(RunFolder(tmp_path / "mine"), 1).verdict() == run.verdict()


def test_the_base_wins_where_nothing_beats_it(configure: Configure, tmp_path: Path) -> None:
    run = train(configure(learning_rate=0.0))
    assert (run.step, run.test, run.dev_score) == (0, None, run.base_score)
    before, after = load(str(tmp_path / "encoder")), load(str(tmp_path / "mine"))
    assert torch.equal(
        before.encode(["a cat"], convert_to_tensor=True), after.encode(["a cat"], convert_to_tensor=True)
    )


def test_worse_weights_are_not_returned(configure: Configure, monkeypatch: Any, tmp_path: Path) -> None:
    worse = Difference("held-out", (60.0, 50.0), (None, None), (-15.0, -5.0), 0.001, None, None, 0.001, 40)
    monkeypatch.setattr("sentemb.training.pairs.compare_on_questions", lambda *models: worse)
    run = train(configure(epochs=6))
    assert run.step == 0 and run.verdict().endswith("60.0 -> 50.0; the base is returned")
    before, after = load(str(tmp_path / "encoder")), load(str(tmp_path / "mine"))
    assert torch.equal(
        before[0].model.embeddings.word_embeddings.weight, after[0].model.embeddings.word_embeddings.weight
    )


@pytest.mark.parametrize(
    ("scores", "p", "verdict"),
    [
        (
            (60.0, 66.5),
            0.0005,
            "better than the base by 6.5 NDCG@10 on 40 held-out questions (95 % inter",
        ),
        (
            (60.0, 60.5),
            0.4,
            "not significantly different from the base: +0.5 NDCG@10 on 40 held-out",
        ),
        ((60.0, 50.0), 0.001, "worse than the base by 10.0 NDCG@10"),
    ],
)
def test_the_verdict_in_words(scores: tuple[float, float], p: float, verdict: str) -> None:
    test = Difference("held-out", scores, (None, None), (4.0, 9.0), p, None, None, p, 40)
    run = Run(Path("out"), 1, 0.6, 5, 10, 1.0, base_score=0.5, measure="NDCG@10", test=test)
    assert run.verdict().startswith(verdict)


def test_queries_and_documents_have_their_prompts(configure: Configure) -> None:
    """The tokens of a batch begin with those of the prompt, as they do in evaluation."""
    session = PairsSession(configure([(*pair, "a red apple") for pair in PAIRS]), progress=None)
    trainer = session.make_trainer([], fresh=True)
    assert session.rows is not None
    batch = trainer.data_collator([session.rows[0]])
    tokenizer = session.model.tokenizer
    for column, prompt in (("anchor", "woman: "), ("positive", "man: "), ("negative", "man: ")):
        expected = tokenizer(prompt + session.rows[0][column])["input_ids"]
        assert batch[f"{column}_input_ids"][0].tolist() == expected
    assert trainer.data_collator.max_length == session.model.max_seq_length == 64


@pytest.mark.parametrize("stop", [4, 9])
def test_a_resumed_run_ends_with_the_same_weights(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Interrupted in the first epoch and in the second, and with weights that are kept from before."""
    whole = train(configure(output=str(tmp_path / "whole"), eval_steps=3))
    with monkeypatch.context() as patch:
        stop_at(patch, stop)
        with pytest.raises(Interrupted):
            train(configure(eval_steps=3, output=str(tmp_path / "stopped")))
    resumed = train(configure(eval_steps=3, output=str(tmp_path / "stopped")), resume=True)
    assert (resumed.verdict(), resumed.step) == (whole.verdict(), whole.step)
    weights = [load(str(tmp_path / name)).state_dict() for name in ("whole", "stopped")]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_triples_a_gradient_cache_and_nothing_held_out(configure: Configure) -> None:
    triples = [(*pair, PAIRS[(row + 7) % len(PAIRS)][1]) for row, pair in enumerate(PAIRS)]
    run = train(configure(triples[:40], held_out=0.0, epochs=1, loss_options={"mini_batch_size": 4}))
    assert (run.step, run.steps, run.dev_score, run.verdict()) == (3, 3, None, "")


def test_a_static_encoder_has_its_own_settings() -> None:
    named = resolve("pairs", overrides={"data": "a.csv", "output": "o", "batch_size": 5})  # static-mini
    assert (named.learning_rate, named.batch_size, named.pooling, named.max_length) == (0.01, 5, None, None)
    raw = resolve("pairs", overrides={"data": "a.csv", "output": "o", "base": "bert-mini"})
    assert (raw.learning_rate, raw.pooling, raw.batch_size) == (5e-5, "mean", 32)
