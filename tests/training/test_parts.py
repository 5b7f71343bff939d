"""Small parts of a run: verdicts, stopping, processes, cards, curves."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.training import Run
from sentemb.training import ranks as module
from sentemb.training.card import encoder_code, render_card
from sentemb.training.checkpoints import (
    check_checkpoint,
    checkpoints,
    keep_weights,
    remove_remains,
    seal,
)
from sentemb.training.folder import read_learning_curves
from sentemb.training.progress import StoppingCallback, StoppingRule, dev_scores
from sentemb.training.ranks import refuse_several
from sentemb.training.run import DevEvaluator
from tests.conftest import build_tiny_bert


@pytest.mark.parametrize(
    ("score", "interval", "verdict"),
    [
        (0.2987, (0.004, 0.017), "+1.05 (95 % interval +0.40 to +1.70): better than the base"),
        (
            0.2987,
            (-0.002, 0.02),
            "+1.05 (95 % interval -0.20 to +2.00): not significantly different from the base",
        ),
        (0.2782, (-0.02, -0.003), "-1.00 (95 % interval -2.00 to -0.30): worse than the base"),
        (0.2882, None, "+0.00: not significantly different from the base"),
    ],
)
def test_the_verdict_follows_the_interval(
    score: float, interval: tuple[float, float] | None, verdict: str
) -> None:
    run = Run(Path("out"), 1, score, 5, 10, 1.0, base_score=0.2882, interval=interval)
    assert run.verdict() == f"dev Spearman 28.82 (base) -> {100 * score:.2f}, {verdict}"

    assert Run(Path("out"), 1, 0.5, 5, 10, 1.0).verdict() == "dev Spearman 50.00"
    assert Run(Path("out"), 1, None, 5, 10, 1.0).verdict() == ""


def test_the_interval_is_that_of_the_paired_bootstrap() -> None:
    gold = np.linspace(0, 5, 200)
    noise = np.random.default_rng(0).normal(size=(2, 200))
    texts = [str(number) for number in range(200)]
    evaluator = DevEvaluator(ScoredPairs("toy", "dev", texts, texts, gold))
    evaluator.evaluated = {0: gold + 3 * noise[0], 4: gold + noise[1], 8: gold + 3 * noise[0]}
    low, high = evaluator.interval(0, 4) or (0, 0)
    assert 0 < low < high < 1
    assert evaluator.interval(0, 8) == (0, 0)
    assert evaluator.interval(0, 0) is None and evaluator.interval(0, 12) is None


@pytest.mark.parametrize(
    ("scores", "drops", "stale"),
    [
        ([], 0, 0),
        ([0.3], 0, 0),
        ([0.3, 0.4, 0.5], 0, 0),
        ([0.5, 0.4, 0.45, 0.3, 0.6], 2, 0),  # a new best does not reset the counter
        ([0.5, 0.5, 0.5], 0, 2),  # an equal score is neither a drop nor an improvement
        ([0.2, 0.6, 0.5, 0.4, 0.3], 3, 3),
    ],
)
def test_counters(scores: list[float], drops: int, stale: int) -> None:
    assert StoppingRule("drops").count(scores) == drops
    assert StoppingRule("patience").count(scores) == stale
    assert StoppingRule("none").count(scores) == 0


def test_the_rule_fires_at_its_limit_and_not_before() -> None:
    zigzag = [0.5, 0.4] * 10
    rule = StoppingRule("drops", limit=10)
    assert [rule.fires(zigzag[:n]) for n in (19, 20)] == [False, True]
    assert not StoppingRule("patience", limit=20).fires(zigzag)
    assert not StoppingRule("none", limit=1).fires(zigzag)


def evaluate(callback: StoppingCallback, scores: list[float], metrics: dict[str, float]) -> TrainerControl:
    state = TrainerState(log_history=[{"loss": 1.0}] + [{"eval_score": score} for score in scores])
    control = TrainerControl()
    callback.on_evaluate(TrainingArguments("unused"), state, control, metrics)
    return control


def test_the_callback_reads_the_history() -> None:
    callback = StoppingCallback("eval_score", rule=StoppingRule("drops", limit=1))
    assert not evaluate(callback, [0.1, 0.2], {"eval_score": 0.2}).should_training_stop
    assert evaluate(callback, [0.2, 0.1], {"eval_score": 0.1}).should_training_stop
    assert dev_scores([{"eval_score": 0.2}, {"loss": 3.0}], "eval_score") == [0.2]

    with pytest.raises(InputError, match="not a number"):
        evaluate(callback, [float("nan")], {"eval_score": float("nan")})
    with pytest.raises(InputError, match="unknown metric of the evaluation: eval_score"):
        evaluate(callback, [], {"eval_other": 1.0})


# Handlers run in the opposite order: the one below after the one of `process_state`.
LAST = """
import atexit
import torch.distributed as group

atexit.register(lambda: print("there" if group.is_initialized() else "gone"))
group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
from sentemb.training.ranks import process_state
process_state()
"""


def test_no_group_outlives_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", LAST], capture_output=True, text=True, check=False)
    assert done.stdout == "gone\n", done.stderr


def test_what_takes_one_process_refuses_several(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_several("adaptation")
    monkeypatch.setattr(module, "process_state", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(InputError, match="adaptation runs in a single process, but 2 were started"):
        refuse_several("adaptation")


@pytest.mark.parametrize(("pooling", "loader"), [("cls", "SentenceTransformer"), ("wk", "sentemb.load")])
def test_the_code_loads_what_the_model_holds(pooling: str, loader: str, tmp_path: Path) -> None:
    model = load(build_tiny_bert(tmp_path / "bert", layers=4), pooling=pooling)
    code = encoder_code(model).replace("{name}", "mine")
    assert f'encoder = {loader}("mine")' in code
    folder = tmp_path / "mine"
    model.save(str(folder))
    names = {}
    exec(compile(ast.parse(code.replace('"mine"', repr(str(folder)))), "card", "exec"), names)
    assert names["vectors"].shape == (2, 16)


def test_only_a_hub_id_is_named_as_the_base(tmp_path: Path) -> None:
    def card(base: str) -> str:
        config = SimpleNamespace(output="mine", base=base)
        return render_card(config, "An encoder.", "pass", {"A": "a|b"}, "@misc{}")

    assert "\nbase_model: org/name\n" in card("org/name")
    assert "base_model" not in card("bert-mini") + card(str(tmp_path))
    assert "| A | a\\|b |" in card("org/name")


MEASURES = ("alignment", "uniformity")


def make_run(folder: Path, entries: list[dict[str, float]], *, end: str = "", dev: str = "dev.tsv") -> Path:
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "config.toml").write_text(f'dev = "{dev}"\ndata_dir = "none"\n')
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / "run" / "metrics.jsonl").write_text(lines + end)
    return folder


def entry(step: int, alignment: float, uniformity: float) -> dict[str, float]:
    return {"step": step, "eval_dev_alignment": alignment, "eval_dev_uniformity": uniformity}


def test_evaluated_steps_in_order_the_last_of_a_step_and_whole_lines_only(tmp_path: Path) -> None:
    entries = [entry(0, 0.1, -0.5), {"step": 1, "contrast": 3.0}, entry(2, 0.2, -1), entry(2, 0.3, -2)]
    # A diverged encoder has no geometry.
    entries.append({"step": 4, "eval_dev_spearman_cosine": 0.0})
    trace = read_learning_curves(
        make_run(tmp_path / "run-1", entries, end='{"step": 6, "eval_dev_al'), MEASURES
    )
    assert trace is not None
    assert (trace.dev, trace.steps) == ("dev", (0, 2))
    assert trace.values == {"alignment": (0.1, 0.3), "uniformity": (-0.5, -2.0)}

    assert read_learning_curves(tmp_path / "absent", MEASURES) is None
    with pytest.raises(InputError, match=r"metrics\.jsonl does not contain a step with alignment and"):
        read_learning_curves(make_run(tmp_path / "a", [{"step": 1, "contrast": 3.0}], dev="none"), MEASURES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "checkpoint-0",
        "checkpoint-10",
        "checkpoint-5",
        ".checkpoint-15.partial",
        "checkpoint-x",
        "other",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-20").write_text("a file, not a folder")
    return tmp_path


def test_only_complete_ones_count_in_order_of_steps(folder: Path) -> None:
    assert [step for step, _ in checkpoints(folder)] == [0, 5, 10]
    assert checkpoints(folder / "absent") == []


def test_a_checkpoint_without_what_was_dropped_is_complete(tmp_path: Path) -> None:
    for name in ("model", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        (tmp_path / name).write_text(name)
    seal(tmp_path)
    keep_weights(tmp_path)
    check_checkpoint(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model", "files.json"}
    (tmp_path / "model").unlink()
    with pytest.raises(InputError, match="model is missing"):
        check_checkpoint(tmp_path)


def test_remains_of_a_kill_go(folder: Path) -> None:
    remove_remains(folder)
    assert not list(folder.glob(".checkpoint-*"))
    assert (folder / "other").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", b"cut", "model.safetensors does not match its checksum"),
        ("trainer_state.json", b'{"global_step": 4}', "trainer_state.json does not match its checksum"),
        ("1_Pooling/config.json", None, "1_Pooling/config.json is missing"),
        ("model.safetensors", b"\1" + bytes((2 << 20) - 1), "model.safetensors does not match its checksum"),
        ("files.json", None, "no such file: .*files.json"),
        ("files.json", b"[]", "does not list any files"),
        ("files.json", b"{", "not valid JSON"),
    ],
)
def test_a_damaged_checkpoint_is_one_clear_error(
    file: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(2 << 20))
    seal(tmp_path)
    check_checkpoint(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=rf"is damaged: .*{message}.*; delete its folder, then resume"):
        check_checkpoint(tmp_path)
