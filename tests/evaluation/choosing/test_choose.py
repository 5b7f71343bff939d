from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation.choosing import Choice, choose
from sentemb.evaluation.choosing.calibration import predictor_for
from sentemb.evaluation.choosing.choice import Cost
from sentemb.evaluation.choosing.questions import family_of
from sentemb.evaluation.retrieval import DenseSearcher, HybridSearcher, KeywordSearcher, evaluate_retrieval
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.modules import load
from sentemb.report.results import choice_table
from tests.evaluation.retrieval.conftest import make_set

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("ana", "elo", "iri", "oru", "une")]


class Bag:
    """Counts of words, through a random map; of `share` of the words alone."""

    def __init__(self, name: str, share: float) -> None:
        generator = np.random.default_rng(0)
        self.name = self.fingerprint = name
        self.dimension = 64
        self.vectors = {word: generator.normal(size=64) for word in WORDS[: int(share * len(WORDS))]}

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        rows = [
            sum(
                (self.vectors.get(word, np.zeros(64)) for word in re.findall(r"\w+", text.lower())),
                np.full(64, 1e-3),
            )
            for text in texts
        ]
        return np.array(rows, dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        return {"precision": "float32"}


@pytest.fixture(scope="module")
def documents() -> list[str]:
    """Texts about a few words each, which come again and again."""
    generator = np.random.default_rng(0)
    topics = [generator.choice(WORDS, 6, replace=False) for _ in range(80)]
    return [
        ". ".join(" ".join(generator.choice(topic, 7)).capitalize() for _ in range(4)) + "."
        for topic in topics
    ]


@pytest.fixture(scope="module")
def alone(documents: list[str]) -> Choice:
    """Keyword search and an encoder, by documents alone."""
    return choose(["bm25", Bag("bag", 1.0)], documents, leaks=())


def test_the_better_encoder_wins_without_labels(documents: list[str]) -> None:
    choice = choose([Bag("half", 0.3), "bm25", Bag("whole", 1.0)], documents, leaks=())
    assert choice.basis == "documents"
    assert choice.reliability == predictor_for([*choice.best.sets]).reliability
    assert choice.confidence == 0.8 and choice.advice is not None
    by_name = {one.name: one for one in choice.candidates}
    assert [*by_name].index("whole") < [*by_name].index("half")
    assert choice.best.behind is None and by_name["half"].interval is None
    lag, low, high = by_name["half"].behind or (0.0, 0.0, 0.0)
    assert low < lag < high and lag > 0
    assert [*choice.best.sets][:3] == ["sentence", "crop", "quote"]
    assert all(one.cost.texts_per_second for one in choice.candidates)
    assert by_name["bm25"].cost.dimension is None and by_name["whole"].cost.dimension == 64
    assert "predicted for real queries" in choice.verdict()
    values = json.loads(json.dumps(choice.to_json(), allow_nan=False))
    assert values["verdict"] == choice.verdict() and len(values["pairs"]) == 3
    again = choose([Bag("whole", 1.0), Bag("half", 0.3), "bm25"], documents, leaks=())
    assert {one.name: one.score for one in again.candidates} == {
        one.name: one.score for one in choice.candidates
    }


def test_judged_queries_update_what_documents_predict(documents: list[str], alone: Choice) -> None:
    data = make_set("own", 60, 30)
    both = choose(["bm25", Bag("bag", 1.0)], documents, judged=data, leaks=())
    assert (alone.judged, both.judged) == (0, len(data)) and both.basis == "documents"
    assert np.ptp(both.pairs[0].interval) < np.ptp(alone.pairs[0].interval)
    assert both.advice is not None and alone.advice is not None
    assert both.advice.detectable < alone.advice.detectable
    assert any(f"updated by {len(data)} queries with qrels" in note for note in choice_table(both).notes)


def test_a_query_log_weights_the_generated_queries(documents: list[str], alone: Choice) -> None:
    systems = ["bm25", Bag("bag", 1.0)]
    log = [" ".join(text.split()[:2]) for text in documents]
    logged = choose(systems, documents, query_log=log, leaks=())
    assert (alone.logged, logged.logged) == (0, len(log))
    assert alone.pairs[0].difference != logged.pairs[0].difference
    assert any("weighted by 80 queries of your log" in note for note in choice_table(logged).notes)
    with pytest.raises(InputError, match=r"--query-log \(query_log\) is for generated queries"):
        choose(systems, judged=make_set("own", 60, 30), query_log=log)


def test_single_sentences_leave_a_kind_out_and_say_so() -> None:
    generator = np.random.default_rng(0)
    topics = [generator.choice(WORDS, 7, replace=False) for _ in range(12)]
    titles = [" ".join(generator.choice(topics[place % 12], 6)) for place in range(120)]
    choice = choose(["bm25", Bag("bag", 1.0)], titles, leaks=())
    assert "sentence" not in choice.best.sets
    assert any(note.startswith("no sentence queries: most documents") for note in choice_table(choice).notes)


def test_graded_pairs_are_scored_as_eval_scores_them(write_file: Callable[[str, str], Path]) -> None:
    generator = np.random.default_rng(1)
    rows = []
    for _ in range(40):
        first, second = (list(generator.choice(WORDS, 5)) for _ in range(2))
        same = int(generator.integers(6))
        rows.append(f"{' '.join(first)},{' '.join(first[:same] + second[same:])},{same}")
    file = write_file("pairs.csv", "sentence1,sentence2,score\n" + "\n".join(rows) + "\n")
    choice = choose([Bag("half", 0.3), Bag("whole", 1.0)], pairs=file, leaks=(), draws=200)
    assert [one.name for one in choice.candidates] == ["whole", "half"]
    expected = evaluate_pairs(Bag("whole", 1.0), load_sets([str(file)])).score("pairs")
    assert choice.best.score == pytest.approx(expected)
    with pytest.raises(InputError, match="bm25 gives no similarity"):
        choose(["bm25"], pairs=file)


@pytest.mark.parametrize(
    ("models", "given", "message"),
    [
        ([], {"texts": ["a"]}, "no system"),
        (["bm25"], {"texts": ["a"], "pairs": "p.csv"}, "pass --texts, --judged or both, or else --pairs"),
        # Nothing is read before: there is no such folder.
        (["bm25"], {"judged": "missing", "draws": 10**7}, "more than 1,000,000 resamples"),
        (["bm25"], {"judged": "missing", "most": 50}, r"--documents \(most\) .* with --judged"),
        (["bm25"], {"texts": ["one two three four five six seven"] * 30}, "too few to generate 20 queries"),
    ],
)
def test_bad_input_is_said(models: list[str], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose(models, **given)


def test_two_systems_of_one_name_and_saved_runs_are_refused(documents: list[str]) -> None:
    for models, problem in (
        (["bm25", "bm25"], "two systems are called bm25"),
        (["run.trec"], "is a saved run"),
    ):
        with pytest.raises(InputError, match=problem):
            choose(models, documents)


def test_judged_queries_are_scored_as_eval_scores_them_and_fit_weights() -> None:
    hybrid = HybridSearcher(Bag("bag", 1.0), "judged")
    with pytest.raises(InputError, match="hybrid-fitted:bag fits its weight on queries with qrels"):
        choose(["bm25", hybrid], ["one two three four five six seven"] * 30)
    data = make_set("own", 60, 30)
    choice = choose(["bm25", hybrid], judged=data, leaks=(), draws=200)
    assert choice.basis == "judged" and choice.reliability is None and choice.confidence == 0.95
    scores = {one.name: one.score for one in choice.candidates}
    assert {*scores} == {"bm25", "hybrid-fitted:bag"}
    assert scores["bm25"] == pytest.approx(evaluate_retrieval("bm25", [data]).score("own", "ndcg@10"))


def test_an_encoder_that_is_handed_over_encodes_each_text_once(
    documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    encode = Bag.encode
    monkeypatch.setattr(
        Bag, "encode", lambda self, texts, **options: encoded.extend(texts) or encode(self, texts)
    )
    choose([Bag("counting", 1.0), "bm25"], documents, leaks=(), draws=200)
    timed = 4 * len(documents)
    assert len(encoded) == len({*encoded}) + timed


def test_models_functions_and_searchers_can_be_handed_over(
    documents: list[str], tiny_encoder: SentenceTransformer
) -> None:
    def lengths(texts: list[str]) -> np.ndarray:
        return np.array([[1.0, len(text)] for text in texts])

    own = SimpleNamespace(
        name="own", fingerprint="own", dimension=None, search=KeywordSearcher().search, describe=dict
    )
    choice = choose([tiny_encoder, lengths, own, "bm25"], documents, leaks=(), draws=200)
    by_name = {one.name: one for one in choice.candidates}
    assert len(by_name) == 4 and by_name["own"].score == by_name["bm25"].score
    assert by_name["own"].cost.texts_per_second is None and by_name["bm25"].cost.texts_per_second
    assert all(one.given for one in choice.candidates)


def test_a_speed_is_recommended_where_it_is_known_and_higher(alone: Choice) -> None:
    pair = replace(alone.pairs[0], better="a", worse="b", differs=False)
    for speeds, said in (
        ((100.0, 102.0), "and none of them is faster"),
        ((100.0, 130.0), "or b, which is 30 % faster"),
        ((100.0, 400.0), "or b, which is 4 times as fast"),
        ((None, 400.0), "cannot say)"),
        ((100.0, None), "and none of them is faster"),
    ):
        candidates = tuple(
            replace(one, name=name, place=1, cost=Cost(speed, None, None))
            for one, name, speed in zip(alone.candidates, "ab", speeds, strict=True)
        )
        verdict = replace(alone, candidates=candidates, pairs=(pair,)).verdict()
        assert verdict.startswith("take a") and "b does not differ significantly from it" in verdict
        assert verdict.endswith(said) if said.endswith(")") else said in verdict


def test_a_static_model_is_static_on_any_device() -> None:
    model = load("static-mini")
    searcher = DenseSearcher(load_encoder(model))
    model.to("meta")
    assert family_of(searcher) == "static"
