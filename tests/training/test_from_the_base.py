"""Training starts from the model as it is, and never presents a worse one as its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Router

from sentemb.modules import load
from sentemb.training import TrainConfig, train
from sentemb.training.contrastive import ContrastiveSession, dev_evaluator

Configure = Callable[..., TrainConfig]


@pytest.fixture
def finished(tiny_bert: Path, tmp_path: Path) -> Path:
    """An encoder that ends in mean pooling and normalisation, as most do."""
    modules = [*load(tiny_bert, pooling="mean", device="cpu"), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "finished"))
    return tmp_path / "finished"


def kinds(model: SentenceTransformer) -> list[str]:
    return [type(module).__name__ for module in model]


def test_a_finished_encoder_keeps_its_pooling_and_normalisation(finished: Path, configure: Configure) -> None:
    config = configure("sg-opt", base=str(finished), max_steps=2)
    assert config.pooling is None
    run = train(config)
    trained = load(run.output)
    assert kinds(trained) == ["Transformer", "Pooling", "Normalize"]
    evaluator = dev_evaluator(config)
    assert evaluator is not None
    assert run.base_score == pytest.approx(evaluator(load(finished))[evaluator.primary_metric])


def test_a_pooling_that_is_named_is_used_and_the_base_as_shipped_is_the_baseline(
    finished: Path, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = configure("sg-opt", base=str(finished), pooling="cls", max_steps=2)
    run = train(config)
    evaluator = dev_evaluator(config)
    assert evaluator is not None
    assert run.base_score == pytest.approx(evaluator(load(finished))[evaluator.primary_metric])
    trained = load(run.output)
    if run.step == 0:
        assert "no checkpoint beat the base model" in caplog.text
        assert kinds(trained) == ["Transformer", "Pooling", "Normalize"]
    else:
        assert isinstance(trained[1], Pooling)
        assert len(trained) == 2


def test_where_nothing_beats_the_base_the_result_is_the_base(
    finished: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sentemb.evaluation import STSEvaluator

    caplog.set_level("INFO")
    evaluate = STSEvaluator.__call__
    calls: list[None] = []

    def worse_each_time(self: STSEvaluator, *args: object, **kwargs: object) -> dict[str, float]:
        calls.append(None)
        return evaluate(self, *args, **kwargs) | {"dev_spearman_cosine": 0.5 - 0.1 * len(calls)}  # type: ignore[arg-type]

    monkeypatch.setattr(STSEvaluator, "__call__", worse_each_time)
    run = train(configure("sg-opt", base=str(finished), max_steps=4))
    assert run.step == 0
    assert run.dev_score == run.base_score
    assert (
        f"no checkpoint beat the base model on the dev set, so {run.output} is the base, finished"
        in caplog.text
    )
    before, after = load(finished).state_dict(), load(run.output).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "unchanged" in (run.output / "README.md").read_text()


def test_sentences_get_the_prompt_that_they_are_judged_with(
    tiny_bert: Path, configure: Configure, tmp_path: Path
) -> None:
    model = load(tiny_bert, pooling="mean", device="cpu")
    model.prompts |= {"query": "a mat ", "task": "the dog "}
    model.default_prompt_name = "task"
    model.save(str(tmp_path / "prompted"))
    run = ContrastiveSession(
        configure("simcse", base=str(tmp_path / "prompted")), progress=None, view_cache=None
    )
    assert run.rows is not None
    row = run.rows[0]
    (column,) = row
    batch = run.make_trainer([], fresh=True).data_collator([row])
    assert batch[f"{column}_input_ids"].tolist() == [model.tokenizer("the dog " + row[column])["input_ids"]]


def test_a_router_is_trained_on_the_route_that_it_is_judged_on(
    tiny_bert: Path, configure: Configure, tmp_path: Path
) -> None:
    query, document = (load(tiny_bert, pooling="mean", device="cpu") for _ in range(2))
    router = Router.for_query_document([*query], [*document])
    SentenceTransformer(modules=[router], device="cpu").save(str(tmp_path / "routed"))
    run = train(configure("simcse", base=str(tmp_path / "routed"), max_steps=2, use_last=True))
    before, after = load(tmp_path / "routed")[0].sub_modules, load(run.output)[0].sub_modules
    changed = {
        route: any(
            not torch.equal(one, other)
            for one, other in zip(before[route].parameters(), after[route].parameters(), strict=True)
        )
        for route in ("query", "document")
    }
    assert changed == {"query": False, "document": True}
