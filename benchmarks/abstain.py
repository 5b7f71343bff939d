"""Does a search know when there is no answer? Fit the weights of evidence, and measure what they keep.

    python benchmarks/abstain.py measure --model static-mini --data-dir DATA --indexes INDEXES \
        --features FEATURES --sets scifact cisi cacm tldr qnli-dev xquad-r/en
    python benchmarks/abstain.py fit --features FEATURES --weights sentemb/search/abstention.json \
        --output benchmarks/results/abstain.json --picture docs/guides/abstain.png \
        --table benchmarks/results/abstain.md

`measure` indexes up to 10,000 documents of each set (`--most`), those with qrels first. It takes up to 400
queries, ranks all documents and those that do not answer the query, and does the same for generated queries.
`fit` fits the weights on all sets, and measures every set with weights that were fitted on the others.
qnli-dev and xquad-r share texts: neither is fitted on the other.

- `kept`: answerable queries with an answer, at a threshold where alpha of the unanswerable ones have one.
- `judged`: the threshold comes from 50 of the queries, and is applied to the others; mean of 500 draws. These
  queries also decide whether similarity alone is the evidence, as `calibrate` does.
- `generated`: the threshold comes from queries that are generated from the documents.
- `rules`: fixed rules, the share of unanswerable queries that get an answer by them, and the answerable
  queries that they and the evidence keep at that share.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sentemb._files import write_json, write_text
from sentemb.data.retrieval import load_retrieval
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import for_role
from sentemb.report.figures import panels, png_of
from sentemb.search import SearchIndex
from sentemb.search.abstention import (
    Rankings,
    better_evidence,
    features,
    generate_unanswerable,
    rank_queries,
)

Double = NDArray[np.float64]
ALPHAS = (0.05, 0.1, 0.2)
NAMES = ("deviations", "coverage", "BM25", "BM25 in units", "dense margin", "keyword margin")
_QUERIES, _CALIBRATION, _DRAWS, _ROUNDS, _PENALTY = 400, 50, 500, 4, 0.01
_SAME = {"qnli-dev": "squad", "xquad-r": "squad"}
_FEWEST = 25


def measure(options: argparse.Namespace) -> None:
    """Save the features of the queries of each set."""
    encoder = load_encoder(options.model)
    options.features.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        label = f"{name.replace('/', '-')}-{Path(options.model).name}"
        path = options.features / f"{label}.npz"
        if path.exists():
            continue
        began, data = time.perf_counter(), load_retrieval(name, data_dir=options.data_dir)
        folder = options.indexes / label
        if not folder.exists():
            rows = np.random.default_rng(0).permutation(len(data.documents))
            judged = np.isin(rows, data.judged[:, 1])
            some = np.sort(np.concatenate([rows[judged], rows[~judged]])[: options.most])
            documents = [(data.document_ids[row], data.documents[row]) for row in some.tolist()]
            SearchIndex.build(documents, encoder).save(folder)
        with SearchIndex.load(folder, encoder, verify=False).store.snapshot() as snapshot:
            numbers = snapshot.numbers_of(data.document_ids)
            rng = np.random.default_rng(0)
            chosen = np.sort(rng.permutation(len(data.queries))[:_QUERIES])
            texts = [data.queries[row] for row in chosen]
            rows = rank_queries(snapshot, texts, for_role(encoder, "query").encode(texts))
            relevant = defaultdict(set)
            for query, document, grade in data.judged.tolist():
                if grade > 0 and document >= 0 and data.document_ids[document] in numbers:
                    relevant[query].add(numbers[data.document_ids[document]])
            pairs = [(row, relevant[query]) for row, query in zip(rows, chosen.tolist(), strict=True)]
            pairs = [(row, own) for row, own in pairs if own]
            parts = {
                "answerable": [row for row, _ in pairs],
                "unanswerable": [row.without(own) for row, own in pairs],
                "generated": generate_unanswerable(snapshot, encoder),
            }
            calibration = snapshot.manifest.calibration
            arrays: dict[str, Any] = {"p99": calibration.score(99) if calibration else np.inf}
            arrays["documents"] = snapshot.manifest.documents
            for part, ranked in parts.items():
                arrays |= _arrays(part, [features(snapshot, row)[1] for row in ranked], ranked)
            np.savez(path, name=name, model=Path(options.model).name, **arrays)
        print(f"{label}: {len(pairs)} queries, {time.perf_counter() - began:.0f} s", flush=True)


def _arrays(part: str, found: Sequence[Double], ranked: Sequence[Rankings]) -> dict[str, Any]:
    """Return features in one array with the number of documents of each query, and the ten best cosines."""
    cosines = np.array([np.resize(row.dense.scores[:10], 10) for row in ranked])
    return {
        part: np.concatenate(found),
        f"{part}_counts": [len(one) for one in found],
        f"{part}_ten": cosines,
    }


class Index:
    """The features of the queries of one set and encoder."""

    def __init__(self, path: Path) -> None:
        loaded = np.load(path)
        self.name, self.model, self.p99 = str(loaded["name"]), str(loaded["model"]), float(loaded["p99"])
        self.documents = int(loaded["documents"]) if "documents" in loaded else 0
        group = self.name.split("/")[0]
        self.group = _SAME.get(group, group)
        parts = ("answerable", "unanswerable", "generated")
        self.features = {
            part: np.split(loaded[part], np.cumsum(loaded[f"{part}_counts"])[:-1]) for part in parts
        }
        self.ten = {part: loaded[f"{part}_ten"] for part in parts}

    def best(self, part: str, weights: Double) -> Double:
        """Return the highest evidence of each query."""
        return np.array([(one @ weights).max() if len(one) else 0.0 for one in self.features[part]])


def fit_weights(indexes: Sequence[Index]) -> Double:
    """Fit a logistic regression without negative weights and with an intercept for each index.

    Each query stands for its document with the highest evidence, which is chosen again in each round.
    """
    both = ("answerable", "unanswerable")
    scale = np.concatenate([one for index in indexes for part in both for one in index.features[part]]).std(0)
    weights = 1 / scale
    for _ in range(_ROUNDS):
        rows, signs, groups, shares = [], [], [], []
        for number, index in enumerate(indexes):
            for part, sign in zip(both, (1.0, -1.0), strict=True):
                some = [one for one in index.features[part] if len(one)]
                rows += [one[(one @ weights).argmax()] / scale for one in some]
                signs += [sign] * len(some)
                groups += [number] * len(some)
                shares += [1 / len(some)] * len(some)
        problem = np.array(rows), np.array(signs), np.array(groups), np.array(shares)
        start = np.zeros(len(scale) + len(indexes))
        bounds = [(0, None)] * len(scale) + [(None, None)] * len(indexes)
        found = minimize(_loss, start, args=problem, jac=True, bounds=bounds, method="L-BFGS-B").x
        weights = found[: len(scale)] / scale
    return weights


def _loss(values: Double, rows: Double, signs: Double, groups: Any, shares: Double) -> tuple[float, Double]:
    """Return the penalized logistic loss and its gradient by the weights and the intercepts."""
    count = rows.shape[1]
    own, intercepts = values[:count], values[count:]
    margins = -signs * (rows @ own + intercepts[groups])
    slopes = -signs * shares / (1 + np.exp(-margins))
    by_group = np.bincount(groups, slopes, len(intercepts))
    gradient = np.concatenate([rows.T @ slopes + 2 * _PENALTY * own, by_group])
    return float(shares @ np.logaddexp(0, margins) + _PENALTY * own @ own), gradient


def threshold(unanswerable: Double, alpha: float) -> float:
    """Return the score that an answer must exceed."""
    place = int(np.ceil((len(unanswerable) + 1) * (1 - alpha) - 1e-9))
    return float(np.sort(unanswerable)[place - 1]) if place <= len(unanswerable) else np.inf


def kept_at(answerable: Double, unanswerable: Double, alpha: float) -> float:
    """Return the share of answerable queries above the score that alpha of the unanswerable ones exceed."""
    rising = np.sort(unanswerable)
    return float((answerable > rising[min(len(rising) - 1, int(len(rising) * (1 - alpha)))]).mean())


_STATISTICS: dict[str, Callable[[Double], Double]] = {
    "cosine": lambda ten: ten[:, 0],
    "deviations of ten": lambda ten: (ten[:, 0] - ten.mean(1)) / np.maximum(ten.std(1), 1e-9),
}


def measure_index(index: Index, weights: Double) -> dict[str, Any]:
    """Measure a set with weights that were fitted on others."""
    yes, no, generated = (index.best(part, weights) for part in index.features)
    rng = np.random.default_rng(0)
    row: dict[str, Any] = {"set": index.name, "model": index.model, "queries": len(yes)}
    row["documents"] = index.documents
    row["auc"] = float(np.mean((yes[:, None] > no) + 0.5 * (yes[:, None] == no)))
    simple = {name: [rule(index.ten[part]) for part in index.features] for name, rule in _STATISTICS.items()}
    row["auc cosine"] = float(np.mean(simple["cosine"][0][:, None] > simple["cosine"][1]))
    for alpha in ALPHAS:
        one: dict[str, Any] = {"kept": {"evidence": kept_at(yes, no, alpha)}}
        one["kept"] |= {name: kept_at(*found[:2], alpha) for name, found in simple.items()}
        limit = threshold(generated, alpha)
        one["generated"] = {"false": float((no > limit).mean()), "kept": float((yes > limit).mean())}
        if len(no) >= _CALIBRATION + _FEWEST:
            both = {"weighted": (yes, no), "similarity": simple["cosine"][:2]}
            draws = [_draw(both, alpha, rng) for _ in range(_DRAWS)]
            false, kept, alone, cosine = np.array(draws).T
            one["judged"] = {"false": float(false.mean()), "kept": float(kept.mean())}
            one["judged"] |= {"similarity": float(alone.mean()), "kept by cosine": float(cosine.mean())}
            one["judged"] |= {
                "false_low": float(np.quantile(false, 0.05)),
                "false_high": float(np.quantile(false, 0.95)),
            }
        row[f"{alpha:g}"] = one
    limits = {"99th percentile": ("cosine", index.p99), "mean + 1.3 deviations": ("deviations of ten", 1.3)}
    row["rules"] = {}
    for rule, (name, limit) in limits.items():
        false, kept = (float((simple[name][part] >= limit).mean()) for part in (1, 0))
        row["rules"][rule] = {"false": false, "kept": kept, "evidence": kept_at(yes, no, false)}
    return row


def _draw(
    scores: dict[str, Sequence[Double]], alpha: float, rng: np.random.Generator
) -> tuple[float, float, bool, float]:
    """Calibrate on 50 queries, and apply it to the others.

    Returns:
        False answers and kept answers; whether similarity alone is the evidence; and what it would keep.
    """
    order = rng.permutation(len(scores["weighted"][0]))
    own, others = order[:_CALIBRATION], order[_CALIBRATION:]
    kind = better_evidence({name: (yes[own], no[own]) for name, (yes, no) in scores.items()})
    found = {}
    for name, (yes, no) in scores.items():
        limit = threshold(no[own], alpha)
        found[name] = float((no[others] > limit).mean()), float((yes[others] > limit).mean())
    return *found[kind], kind == "similarity", found["similarity"][1]


def fit(options: argparse.Namespace) -> None:
    """Fit the weights, and write them with what was measured."""
    indexes = [Index(path) for path in sorted(options.features.glob("*.npz"))]
    indexes = [index for index in indexes if len(index.features["answerable"]) >= _FEWEST]
    by_group = {
        group: fit_weights([index for index in indexes if index.group != group])
        for group in {index.group for index in indexes}
    }
    rows = [measure_index(index, by_group[index.group]) for index in indexes]
    weights = fit_weights(indexes)
    harness.save(options.output, weights=dict(zip(NAMES, weights.tolist(), strict=True)), rows=rows)
    print(table(rows))
    print(rules_table(rows))
    if options.weights is not None:
        bundled: dict[str, Any] = {"by": "benchmarks/abstain.py"}
        bundled["weights"] = [float(f"{weight:.4g}") for weight in weights]
        bundled["sets"] = len({row["set"] for row in rows})
        for part, name in (("false", "false_answers"), ("kept", "kept")):
            shares = {
                f"{alpha:g}": [row[f"{alpha:g}"]["generated"][part] for row in rows] for alpha in ALPHAS
            }
            bundled[name] = {key: [round(min(some), 3), round(max(some), 3)] for key, some in shares.items()}
        write_json(options.weights, bundled)
    if options.picture is not None:
        options.picture.write_bytes(png_of(picture(rows)))
    if options.table is not None:
        write_text(options.table, table(rows))
    for alpha in ALPHAS[:2]:
        for model in sorted({row["model"] for row in rows}):
            some = [row[f"{alpha:g}"] for row in rows if row["model"] == model]
            means = {name: np.mean([one["kept"][name] for one in some]) for name in some[0]["kept"]}
            wins = {n: sum(o["kept"]["evidence"] > o["kept"][n] for o in some) for n in _STATISTICS}
            print(model, alpha, {name: f"{100 * mean:.1f}" for name, mean in means.items()}, wins, len(some))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of the guide: what is kept, and the share of false answers, at 5 % and at 10 %."""
    header = "set|model|documents|queries|kept at 5 %|by cosine|kept at 10 %|by cosine".split("|")
    header += "false, 50 queries, 5 %|10 %|kept, 5 %|10 %|false, generated, 5 %|10 %".split("|")
    lines = []
    for row in rows:
        five, ten = row["0.05"], row["0.1"]
        cells = [_percent(one["kept"][name]) for one in (five, ten) for name in ("evidence", "cosine")]
        judged = [one.get("judged") for one in (five, ten)]
        cells += [f"{100 * one['false']:.1f}" if one else "–" for one in judged]
        cells += [_percent(one["kept"]) if one else "–" for one in judged]
        cells += [f"{100 * one['generated']['false']:.1f}" for one in (five, ten)]
        sizes = [f"{row[name]:,}" for name in ("documents", "queries")]
        lines.append([row["set"], row["model"], *sizes, *cells])
    return harness.markdown(header, lines, names=2)


def rules_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of fixed rules: false answers, kept answers, and those that the evidence keeps then."""
    header = ["set", "model"]
    lines = [[row["set"], row["model"]] for row in rows]
    for rule in rows[0]["rules"]:
        header += [rule, "kept", "kept by evidence"]
        for line, row in zip(lines, rows, strict=True):
            line += [_percent(row["rules"][rule][part]) for part in ("false", "kept", "evidence")]
    return harness.markdown(header, lines, names=2)


def picture(rows: Sequence[dict[str, Any]]) -> Any:
    """Draw answerable queries kept at 10 %, by evidence and by cosine."""
    model = max({row["model"] for row in rows}, key=lambda name: sum(row["model"] == name for row in rows))
    some = sorted(
        (row for row in rows if row["model"] == model), key=lambda row: row["0.1"]["kept"]["evidence"]
    )
    figure, (axes,) = panels(height=0.32 * len(some) + 1.1)
    places = np.arange(len(some))
    for name, colour, label in (("evidence", "#0072B2", "evidence"), ("cosine", "#D55E00", "best cosine")):
        axes.plot([100 * row["0.1"]["kept"][name] for row in some], places, "o", color=colour, label=label)
    for place, row in enumerate(some):
        kept = row["0.1"]["kept"]
        axes.plot(
            [100 * kept["cosine"], 100 * kept["evidence"]], [place, place], color="#8A8A8A", lw=1, zorder=0
        )
    axes.set_yticks(places, [row["set"] for row in some])
    axes.set_xlabel("answerable queries kept, %, at 10 % false answers")
    axes.set_xlim(left=0)
    axes.legend(loc="lower right", frameon=False)
    return figure


if __name__ == "__main__":
    harness.run(
        __doc__,
        {
            "measure": (
                measure,
                {"model": str, "data_dir": Path, "indexes": Path, "features": Path, "sets": ["scifact"]}
                | {"most": 10_000},
            ),
            "fit": (
                fit,
                {"features": Path, "output": (Path, None), "weights": (Path, None), "picture": (Path, None)}
                | {"table": (Path, None)},
            ),
        },
    )
