r"""Tune learning rate and temperature of each objective of the experiment `survival`, with the same budget.

    python benchmarks/tune_objectives.py run --data sentences.txt --data-dir DATA --folder tuning \
        --methods simcse sg-opt
    python benchmarks/tune_objectives.py write --folder tuning --output tuned.toml --table tuned.md

`run` trains each objective once with every learning rate, and then with half and twice its temperature at the
best rate. The seed is none of the experiment's, and the dev set of STS-B decides. Several processes may share
the folder if they have other methods. `write` makes the options for `sentemb experiment survival --methods`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import harness

from sentemb._files import read_json, write_json, write_text
from sentemb.experiments import load_experiment
from sentemb.experiments.experiment import Method, joined
from sentemb.experiments.sts import TRANSFORMS
from sentemb.training import resolve, train
from sentemb.training.values import to_toml

RATES = (3e-5, 1e-4, 3e-4, 1e-3)
FACTORS = (0.5, 2.0)
SEED = 100


def run(given: argparse.Namespace) -> None:
    """Train what the folder does not have yet."""
    experiment = load_experiment("survival")
    for method in experiment.chosen:
        if method.name in given.methods:
            options = joined(experiment.options, method.options)
            files = {"base": given.base, "data": given.data, "data_dir": given.data_dir, "dev": "stsb"}
            files["cache_dir"] = str(given.folder / "vectors")
            _tune(method, {**options, **files}, given.folder)


def _tune(method: Method, options: dict[str, Any], folder: Path) -> None:
    path = folder / f"{method.name}.json"
    found: list[dict[str, Any]] = read_json(path) if path.exists() else []

    def score(rate: float, temperature: float) -> float:
        tried = {"learning_rate": rate, "temperature": temperature}
        for one in found:
            if all(one[key] == value for key, value in tried.items()):
                return float(one["dev"])
        output = folder / f"{method.name}-{rate:g}-{temperature:g}"
        own = {"learning_rate": rate, "loss_options": {"temperature": temperature}, "seeds": (SEED,)}
        overrides = {**joined(options, own), "output": str(output)}
        trained = train(resolve(method.recipe, overrides=overrides), resume=True)
        found.append({**tried, "dev": trained.dev_score, "step": trained.step})
        print(method.name, found[-1], flush=True)
        write_json(path, found)
        shutil.rmtree(output)
        return float(found[-1]["dev"])

    usual = resolve(method.recipe, overrides={**options, "output": "unused"}).loss_options["temperature"]
    best = max(RATES, key=lambda rate: score(rate, usual))
    for factor in FACTORS:
        score(best, factor * usual)


def write(given: argparse.Namespace) -> None:
    """Write the best options of each objective, and a table of what was tried."""
    experiment, chosen, rows = load_experiment("survival"), {}, []
    for method in experiment.chosen:
        path = given.folder / f"{method.name}.json"
        published = {} if method.published is None else {"published": method.published}
        if not path.exists():
            if method.recipe in (*TRANSFORMS, "base"):
                chosen[method.name] = published | dict(method.options)
            continue
        found = read_json(path)
        best = max(found, key=lambda one: one["dev"])
        own = {"learning_rate": best["learning_rate"], "loss_options": {"temperature": best["temperature"]}}
        chosen[method.name] = published | joined(method.options, own)
        for one in found:
            marks = ["**", "**"] if one is best else ["", ""]
            cells = [f"{one['learning_rate']:g}", f"{one['temperature']:g}", f"{100 * one['dev']:.2f}"]
            rows.append([method.name, *(cell.join(marks) for cell in cells)])
    write_text(given.output, to_toml(chosen))
    table = harness.markdown(["objective", "learning rate", "temperature", "dev STS-B"], rows)
    print(table)
    if given.table is not None:
        write_text(given.table, table)


if __name__ == "__main__":
    harness.run(
        __doc__ or "",
        {
            "run": (
                run,
                {"data": str, "data_dir": str, "folder": Path, "base": "bert-mini", "methods": ["simcse"]},
            ),
            "write": (write, {"folder": Path, "output": Path, "table": (Path, None)}),
        },
    )
