from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Router

from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.training import Interrupted, TrainConfig, choose_checkpoint, train, train_seeds
from sentemb.training.folder import RunFolder
from sentemb.training.run import ContrastiveSession, dev_evaluator
from tests.training.training_helpers import assert_equal, model_weights, stop_at

Configure = Callable[..., TrainConfig]


def read_metrics(output: str) -> list[dict[str, Any]]:
    lines = (Path(output) / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_another_dev_set_chooses_among_checkpoints_that_were_kept(
    configure: Configure, dev_file: Path, tmp_path: Path
) -> None:
    config, contrary = configure("simcse"), tmp_path / "contrary.tsv"
    header, *lines = dev_file.read_text().splitlines()
    pairs = (line.rsplit("\t", 1) for line in lines)
    contrary.write_text("\n".join([header, *(f"{texts}\t{5 - int(score)}" for texts, score in pairs)]))
    train(config, keep_checkpoints=True)
    kept = (Path(config.output) / "run" / "checkpoints").iterdir()
    assert {path.name for path in kept} == {f"checkpoint-{step}" for step in (0, 2, 4, 6)}
    assert_equal(dict(choose_checkpoint(config).state_dict()), model_weights(Path(config.output)))
    alone = config.replace(dev=str(contrary), output=str(tmp_path / "alone"))
    run = train(alone)
    found = choose_checkpoint(config.replace(dev=str(contrary)))
    assert_equal(dict(found.state_dict()), model_weights(run.output))
    with pytest.raises(InputError, match="alone contains 1 checkpoints of 4 evaluations"):
        choose_checkpoint(alone)


@pytest.mark.parametrize("recipe", ["simcse", "sg-opt1", "sg-opt"])
def test_a_run_leaves_a_model_and_its_whole_story(configure: Configure, recipe: str) -> None:
    config = configure(recipe)
    run = train(config)
    output = Path(config.output)
    record = json.loads((output / "run" / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["data"]["rows"] == 45
    assert len(record["data"]["files"][0]["sha256"]) == 64
    assert record["versions"]["torch"] == torch.__version__
    assert record["dev"]["score"] == run.dev_score
    assert record["dev"]["evaluations"] == 4  # before the first step, at 2, at 4, and after the last one
    assert record["sentences_per_second"] > 0
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    assert settings["learning_rate"] == 1e-3
    metrics = read_metrics(config.output)
    component = "loss" if recipe == "simcse" else "contrast"
    assert [entry["step"] for entry in metrics if component in entry] == [1, 2, 3, 4, 5, 6]
    for metric in ("spearman_cosine", "alignment", "uniformity", "anisotropy", "effective_rank"):
        assert [entry["step"] for entry in metrics if f"eval_dev_{metric}" in entry] == [0, 2, 4, 6]
    card = (output / "README.md").read_text()
    assert f"{100 * run.dev_score:.2f} Spearman" in card
    assert ("unchanged: no checkpoint scored higher" if run.step == 0 else f"`{recipe}` recipe") in card
    assert str(output.parent) not in card
    assert run.base_score == record["dev"]["initial"]
    assert [path.name for path in (output / "run" / "checkpoints").iterdir()] == [f"checkpoint-{run.step}"]


LOADS_ALONE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sentemb":
            raise ImportError("sentemb is blocked")
sys.meta_path.insert(0, Blocked())
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
assert not any(module.split(".")[0] == "sentemb" for module in sys.modules)
assert all(type(module).__module__.startswith("sentence_transformers.") for module in model)
assert not model[0].model.config.output_hidden_states
print([type(module).__name__ for module in model], model.encode(["a cat sat"]).shape, model.max_seq_length)
"""


def test_the_output_loads_without_sentemb(configure: Configure) -> None:
    # A batch larger than the data, and mixed precision, which leaves float32 weights.
    config = configure("sg-opt", batch_size=64, precision="bfloat16")
    assert train(config).steps == 1
    weights = model_weights(Path(config.output)).values()
    assert {tensor.dtype for tensor in weights if tensor.is_floating_point()} == {torch.float32}
    told = subprocess.run(
        [sys.executable, "-c", LOADS_ALONE, config.output], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "['Transformer', 'Pooling'] (1, 16) 64"


def test_the_stopping_rule_ends_a_run_early(configure: Configure) -> None:
    run = train(
        configure("simcse", stopping="patience", stopping_limit=1, epochs=50, learning_rate=0.5, eval_steps=1)
    )
    assert run.steps < 50


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_weights(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = configure("sg-opt", output=str(tmp_path / "whole"), use_last=True, epochs=2)
    train(whole)
    config = configure("sg-opt", use_last=True, epochs=2)
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(Interrupted, match=r"stopped at step 5; .*--resume"):
            train(config)
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(InputError, match="interrupted run with the same configuration; add --resume"):
        train(config)
    with pytest.raises(InputError, match="other values of epochs"):
        train(config.replace(epochs=3), resume=True)
    run = train(config, resume=True)
    assert run.steps == 12
    assert_equal(model_weights(Path(whole.output)), model_weights(Path(config.output)))
    steps = [entry["step"] for entry in read_metrics(config.output) if "contrast" in entry]
    assert steps == list(range(1, 13))


def test_a_run_resumes_from_another_working_folder_on_the_same_files(
    configure: Configure,
    tmp_path: Path,
    tiny_bert: Path,
    sentences_file: Path,
    dev_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(tiny_bert, tmp_path / "base")
    shutil.copy(dev_file, tmp_path / "dev.tsv")
    shutil.copy(sentences_file, tmp_path / "data.txt")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    config = configure("sg-opt", base="base", dev="dev.tsv", data="data.txt")
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(Interrupted):
            train(config)
    monkeypatch.chdir(tmp_path / "inner")
    elsewhere = config.replace(base="../base", dev="../dev.tsv", data="../data.txt")
    Path("other.tsv").write_text(dev_file.read_text() + "a cat\ta cat\t5\n")
    Path("other.txt").write_text(sentences_file.read_text() + "one more\n")
    with pytest.raises(InputError, match="other values of dev;"):
        train(elsewhere.replace(dev="other.tsv"), resume=True)
    with pytest.raises(InputError, match=r"other\.txt has changed since the run started .*record\.json"):
        train(elsewhere.replace(data="other.txt"), resume=True)
    assert train(elsewhere, resume=True).steps == 6


@pytest.mark.parametrize(("stop", "use_last"), [(3, True), (5, False), (6, False)])
def test_a_resumed_run_gives_the_verdict_of_a_whole_one(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, use_last: bool
) -> None:
    values = {"use_last": use_last, "learning_rate": 3e-3}
    whole = train(configure("sg-opt", output=str(tmp_path / "whole"), **values))
    with monkeypatch.context() as patch:
        stop_at(patch, stop)
        with pytest.raises(Interrupted):
            train(configure("sg-opt", **values))
    resumed = train(configure("sg-opt", **values), resume=True)
    assert (
        whole.step == (6 if use_last else 4)
        and whole.interval is not None
        and "95 % interval" in whole.verdict()
    )
    assert (resumed.verdict(), resumed.interval) == (whole.verdict(), whole.interval)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_in_the_last_step_is_not_forgotten(
    number: signal.Signals, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure("simcse", max_steps=3)
    with monkeypatch.context() as patch:
        stop_at(patch, 3, number)
        with pytest.raises(Interrupted, match="stopped at step 3"):
            train(config)
    assert not (Path(config.output) / "modules.json").exists()
    assert train(config, resume=True).steps == 3
    assert (Path(config.output) / "modules.json").exists()


def test_an_ignored_signal_stays_ignored(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with monkeypatch.context() as patch:
            stop_at(patch, 2)
            assert train(configure("simcse", max_steps=3)).steps == 3
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_what_is_in_a_folder_stays(configure: Configure, tmp_path: Path) -> None:
    config = configure("simcse", max_steps=1, dev="none")
    train(config)
    before = model_weights(Path(config.output))
    for resume in (False, True):
        with pytest.raises(InputError, match="contains a finished run; choose another --output"):
            train(config, resume=resume)
    assert_equal(before, model_weights(Path(config.output)))
    suffixes = {path.suffix for path in Path(config.output).rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".jsonl", ".toml", ".md", ".safetensors", ""}  # no pickle
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="already exists and does not contain a run"):
        train(config.replace(output=str(tmp_path / "other")))
    for taken in (tmp_path / "other" / "thesis.tex", tmp_path / "other" / "thesis.tex" / "below"):
        with pytest.raises((InputError, OSError), match="thesis"):
            train(config.replace(output=str(taken)))
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"


def test_two_processes_do_not_share_a_folder(configure: Configure) -> None:
    config = configure("simcse")
    problems: list[str] = []

    def second() -> None:
        try:
            with RunFolder(Path(config.output)).claimed(config, resume=True):
                pass
        except InputError as error:
            problems.append(str(error))

    with RunFolder(Path(config.output)).claimed(config, resume=False):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert problems and "another process is training" in problems[0]


def test_seeds_give_a_mean_a_deviation_and_a_range(configure: Configure, tmp_path: Path) -> None:
    config = configure("sg-opt", seeds=(1, 2), max_steps=3)
    summary = train_seeds(config)
    values = json.loads((Path(config.output) / "summary.json").read_text())
    scores = [run.dev_score for run in summary.runs]
    assert values["seeds"] == [1, 2]
    assert values["scores"] == scores
    assert values["mean"] == pytest.approx(sum(scores) / 2)
    assert values["standard_deviation"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    assert (values["lowest"], values["highest"]) == (min(scores), max(scores))
    # A seed's weights do not depend on the seeds before it.
    alone = configure("sg-opt", seeds=(2,), max_steps=3, output=str(tmp_path / "alone"))
    train(alone)
    assert_equal(model_weights(Path(alone.output)), model_weights(Path(config.output) / "seed-2"))
    with pytest.raises(InputError, match="finished run"):
        train_seeds(config)
    assert train_seeds(config.replace(seeds=(1, 2, 3)), resume=True).runs[:2] == summary.runs


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batch_size": 1}, "with batch_size 1 no anchor has a negative"),
        ({"base": "absent-model"}, "absent-model"),
        ({"dev": "absent.tsv"}, r"dev set .*absent\.tsv.*--dev none"),
        ({"dev": "stsc"}, r"dev set .*stsc.*--dev none"),
        ({"pooling": "clss"}, "unknown pooling 'clss'"),
        ({"loss": "SimCseLoss"}, "unknown loss: SimCseLoss; did you mean SimCSELoss"),
        ({"loss_options": {"temperature": "hot"}}, "temperature is 'hot'; it must be a valid number"),
        ({"loss_options": {"temperature": 0}}, "temperature of SimCSELoss is 0"),
        ({"columns": ["missing"]}, "missing"),
    ],
)
def test_user_errors_stop_a_run_before_it_writes(
    configure: Configure, overrides: dict[str, Any], message: str
) -> None:
    config = configure("simcse", **overrides)
    with pytest.raises(InputError, match=message):
        train(config)
    assert not Path(config.output).exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no rows|empty"),
        ("a cat\n", "contains a single unique row"),
        ("a cat\n" * 9, "a single unique row, 9 times"),
    ],
)
def test_data_without_anything_to_contrast(
    configure: Configure, write_file: Any, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(configure("simcse", data=str(write_file("few.txt", content))))


SOURCE = """
import torch
from torch import nn


class Together(nn.Module):
    def __init__(self, model, *, scale: float = 20.0):
        super().__init__()
        self.model, self.scale = model, scale
        self.head = nn.Linear(16, 16)

    def forward(self, sentence_features, labels=None):
        (column,) = sentence_features
        first, second = (self.head(self.model(dict(column))["sentence_embedding"]) for _ in range(2))
        logits = self.scale * nn.functional.normalize(first) @ nn.functional.normalize(second).T
        return nn.functional.cross_entropy(logits, torch.arange(len(logits)))


class NoLoss:
    pass
"""


@pytest.fixture
def own(write_file: Callable[[str, str], Path]) -> str:
    return f"{write_file('my_losses.py', SOURCE)}:Together"


def test_an_own_loss_trains_and_is_recorded(configure: Configure, own: str, tmp_path: Path) -> None:
    config = configure("simcse", loss=own, loss_options={"scale": 10.0}, max_steps=3, use_last=True)
    assert config.loss_options == {"scale": 10.0}  # none of SimCSE's
    run = train(config)
    again = train(config.replace(output=str(tmp_path / "again")))
    assert_equal(model_weights(run.output), model_weights(again.output))
    loss = json.loads((run.output / "run" / "record.json").read_text())["loss"]
    assert loss["name"] == "Together"
    assert len(loss["sha256"]) == 64
    card = (run.output / "README.md").read_text()
    assert "my_losses.py:Together scale=10" in card
    assert str(tmp_path) not in card


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("absent.py:Together", {}, "no such file: absent.py; specify a loss as FILE.py:CLASS"),
        ("{file}:Togehter", {}, "my_losses.py: Togehter; did you mean Together?"),
        ("{file}:NoLoss", {}, "my_losses.py: NoLoss; choose among Together"),
        ("{file}:Together", {"scal": 1.0}, "unknown option of Together: scal; did you mean scale?"),
        ("{file}:Together", {"scale": "much"}, "loss_options.scale is 'much'; it must be a valid number"),
        ("{broken}:Loss", {}, "broken.py:2: ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_in_an_own_loss_is_one_line(
    name: str,
    options: dict[str, object],
    message: str,
    own: str,
    configure: Configure,
    write_file: Callable[[str, str], Path],
) -> None:
    broken = write_file("broken.py", "\n1 / 0\n")
    loss = name.format(file=own.rpartition(":")[0], broken=broken)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        train(configure("simcse", loss=loss, loss_options=options))
    assert "\n" not in str(caught.value)


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
