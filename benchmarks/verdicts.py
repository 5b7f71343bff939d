"""Do the verdicts of `sentemb choose` hold on collections that took no part in them?

    python benchmarks/verdicts.py measure --data-dir DATA --model all-MiniLM-L6-v2
    python benchmarks/verdicts.py fit --output benchmarks/results/verdicts.json \
        --calibration sentemb/evaluation/choosing/calibration.json

`measure` runs twelve systems on every collection of `pool.py`: on its judged queries, which gives the truth,
and on queries generated from its documents, as `choose` does. A collection with a file in results/choose is
not measured again. `fit` fits the model of `sentemb.evaluation.choosing.calibration` and reports how its
predictions hold leave-one-corpus-out: each collection is predicted by a model that was fitted on the others.
Languages of one text are left out together, and count as one.

The systems: BM25; the model, its first 64 dimensions, its first 32 tokens and its first three layers;
static-mini; latent semantic analysis; bert-mini and sg-bert-mini; hybrids of BM25 with three of them.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import pool
from numpy.typing import NDArray
from scipy import optimize, stats

from sentemb._files import write_text
from sentemb.data.bm25 import count_terms
from sentemb.data.generated_queries import CHOOSING, SENTENCE, generate_queries, latent_vectors
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.choosing.calibration import (
    CALLED,
    FAMILIES,
    Estimate,
    Evidence,
    Prediction,
    Predictor,
    Reliability,
    design_of,
    residual_covariance,
)
from sentemb.evaluation.choosing.questions import family_of, log_weights, scores_by_query
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.retrieval import DenseSearcher, HybridSearcher, KeywordSearcher, Searcher
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.modules import load

Double = NDArray[np.float64]
FULL = CHOOSING
PREDICTORS = (FULL, FULL[:3], FULL[1:], FULL[1:3])
"""Kinds of queries of each predictor: with and without sentences, with and without neighborhoods."""
RUNS = Path(__file__).with_name("results") / "choose"
"""The collections that were measured so far."""
JUDGED = (20, 50)
"""Judged queries that update predictions."""
_SPLITS = 20
FEWEST_CORPORA = 4
FAR = 5.0
"""Points of NDCG@10: a system that is worse by more must not be called better."""


class Derived:
    """An encoder that is computed from another, or from the documents."""

    def __init__(self, name: str, dimension: int, encode: Callable[[Sequence[str]], Any]) -> None:
        self.name = self.fingerprint = name
        self.dimension = dimension
        self._encode = encode

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """See `TextEncoder.encode`."""
        return self._encode(texts)

    def describe(self) -> dict[str, Any]:
        """See `TextEncoder.describe`."""
        return {"encoder": self.name, "precision": "float32"}


class LatentSearcher(DenseSearcher):
    """Latent semantic analysis, fitted on the documents that are searched."""

    def __init__(self) -> None:
        super().__init__(Derived("lsa", 100, lambda texts: np.zeros((len(texts), 100), dtype=np.float32)))

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> Any:
        """See `Searcher.search`."""
        texts = [*data.documents, *data.queries]
        counts, _ = count_terms(texts, data.language)
        vectors = latent_vectors(counts, fitted_on=len(data.documents)).astype(np.float32)
        places = {text: vectors[row] for row, text in enumerate(texts)}
        fitted = Derived("lsa", vectors.shape[1], lambda some: np.array([places[text] for text in some]))
        return DenseSearcher(fitted).search(data, depth, progress=progress)


def systems(model: str, cache: Path, folder: Path) -> list[Searcher]:
    """Return all systems."""
    kept = {"cache_dir": cache / "vectors", "precision": "reduced"}
    encoder = load_encoder(model, **kept)
    short, shallow = load(model), load(model)
    short.max_seq_length = 32
    short.save(str(folder / "32-tokens"))
    network: Any = shallow[0].auto_model
    network.encoder.layer = network.encoder.layer[:3]
    network.config.num_hidden_layers = 3
    shallow.save(str(folder / "3-layers"))
    static, raw = load_encoder("static-mini", **kept), load_encoder("sg-bert-mini", **kept)
    dense: list[TextEncoder] = [
        encoder,
        Derived("64-dimensions", 64, lambda texts: encoder.encode(texts)[:, :64]),
        load_encoder(folder / "32-tokens", **kept),
        load_encoder(folder / "3-layers", **kept),
        static,
        raw,
        load_encoder("bert-mini", pooling="mean", **kept),
    ]
    hybrids = [HybridSearcher(one) for one in (encoder, static, raw)]
    return [*map(DenseSearcher, dense), LatentSearcher(), KeywordSearcher(), *hybrids]


def measure(arguments: argparse.Namespace) -> None:
    """Measure every collection that is not in the cache."""
    arguments.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        searchers = systems(arguments.model, arguments.cache, Path(folder))
        for name in arguments.sets or pool.NAMES:
            place = arguments.cache / f"{name.replace('/', '_')}.npz"
            if place.exists():
                continue
            data, documents = pool.load(name, arguments.data_dir, arguments.documents, arguments.judged)
            sets = generate_queries(
                documents,
                count=arguments.queries,
                most=len(documents),
                language=data.language,
                kinds=CHOOSING,
            )
            real, recall, generated = [], [], []
            for searcher in searchers:
                record = evaluate_retrieval(searcher, [data])
                ranks = load_predictions(record)[0][data.name]
                real.append(100 * query_scores("ndcg@10", ranks, data.gold))
                recall.append(100 * query_scores("recall@100", ranks, data.gold))
                generated.append(evaluate_retrieval(searcher, sets, exclude_same_ids=True))
            scores = scores_by_query(generated, sets)
            about = {
                "name": name,
                "documents": len(documents),
                "systems": [searcher.name for searcher in searchers],
                "families": ["static" if one.name == "lsa" else family_of(one) for one in searchers],
            }
            kinds = {f"kind {kind}": own for kind, own in scores.items()}
            texts = [document.whole for document in documents]
            weights = log_weights(data.queries, sets, texts)
            kinds |= {f"weights {kind}": own for kind, own in weights.items()}
            temporary = place.with_suffix(".part.npz")
            parts: dict[str, Any] = {"real": real, "recall": recall, **kinds}
            np.savez_compressed(
                temporary, about=json.dumps(about), **{key: np.float32(own) for key, own in parts.items()}
            )
            temporary.replace(place)
            means = dict(zip(about["systems"], np.mean(real, axis=1).round(1).tolist(), strict=True))
            print(
                name, len(documents), {kind: own.shape[1] for kind, own in scores.items()}, means, flush=True
            )


class Measured(NamedTuple):
    """What was measured on one collection."""

    name: str
    systems: list[str]
    evidence: Evidence
    real: Double  # NDCG@10 x 100, shape (systems, queries)

    @property
    def corpus(self) -> str:
        """The text, of which a collection may be one language."""
        return self.name.split("/")[0]

    @property
    def truth(self) -> Double:
        """The mean of each system."""
        return self.real.mean(axis=1)

    @property
    def noise(self) -> Double:
        """The covariance of these means."""
        return np.cov(self.real) / self.real.shape[1]


def measured(cache: Path, *, log: bool) -> list[Measured]:
    """Return all collections of the cache; their judged queries may serve as a query log."""
    found = []
    for place in sorted(cache.glob("*.npz")):
        with np.load(place) as data:
            about = json.loads(str(data["about"]))
            scores = {key.removeprefix("kind "): data[key] for key in data.files if key.startswith("kind ")}
            weights = {kind: data[f"weights {kind}"] for kind in scores} if log else None
            evidence = Evidence.of(about["families"], scores, weights)
            found.append(Measured(about["name"], about["systems"], evidence, data["real"]))
    return found


def is_of(one: Measured, kinds: Sequence[str]) -> bool:
    """Say whether a collection is of those that a predictor is for: with sentences, or without."""
    return {*kinds} <= {*one.evidence.means} and (SENTENCE in one.evidence.means) == (SENTENCE in kinds)


# Prior of the coefficients: each kind counts the same, families may differ by ten points.
_KIND, _FAMILY = 0.3, 10.0
# Prior of the logarithms of the variances.
_LOGS, _WIDE = np.array([2.0, 2.0, 0.0, 2.0]), 3.0


def fit(sets: Sequence[Measured], kinds: Sequence[str]) -> Predictor:
    """Fit by restricted maximum likelihood; languages of one text share the weight of one collection."""
    corpora = [one.corpus for one in sets]
    weights = [1 / corpora.count(one.corpus) for one in sets]
    start = np.concatenate([np.full(len(kinds), 1 / len(kinds)), np.zeros(len(FAMILIES) - 1)])
    precision = np.concatenate([np.full(len(kinds), _KIND**-2), np.full(len(FAMILIES) - 1, _FAMILY**-2)])
    designs = [design_of(kinds, one.evidence) for one in sets]

    def solve(logs: Double) -> tuple[float, Double, Double]:
        left, right, total = np.diag(precision), precision * start, 0.0
        for one, weight, design in zip(sets, weights, designs, strict=True):
            free = _contrasts(len(one.systems))
            whole = residual_covariance(kinds, one.evidence, np.exp(logs)) + one.noise
            factor = np.linalg.cholesky(free @ whole @ free.T)
            own = np.linalg.solve(factor, free @ design)
            target = np.linalg.solve(factor, free @ one.truth)
            left = left + weight * own.T @ own
            right = right + weight * own.T @ target
            total += weight * float(2 * np.log(np.diag(factor)).sum() + target @ target)
        found = np.linalg.solve(left, right)
        total += float(np.linalg.slogdet(left)[1] - right @ found)
        return total + float((((logs - _LOGS) / _WIDE) ** 2).sum()), found, np.linalg.inv(left)

    best = optimize.minimize(
        lambda logs: solve(logs)[0], _LOGS, method="L-BFGS-B", bounds=[(-3.0, 6.0)] * len(_LOGS)
    )
    _, coefficients, uncertainty = solve(best.x)
    variances = tuple(float(value) for value in np.exp(best.x))
    nothing = Reliability(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Predictor(tuple(kinds), False, coefficients, uncertainty, variances, nothing)  # type: ignore[arg-type]


def _contrasts(count: int) -> Double:
    """Return an orthonormal basis of what does not change if all scores shift."""
    basis, _ = np.linalg.qr(np.hstack([np.ones((count, 1)), np.eye(count)[:, : count - 1]]))
    return basis[:, 1:].T


def left_out(sets: Sequence[Measured], kinds: Sequence[str]) -> Iterator[tuple[Measured, Prediction]]:
    """Yield each collection with its prediction by a model that was fitted on the others."""
    for corpus in dict.fromkeys(one.corpus for one in sets):
        predictor = fit([one for one in sets if one.corpus != corpus], kinds)
        for one in sets:
            if one.corpus == corpus:
                yield one, predictor.predict(one.evidence)


class Row(NamedTuple):
    """One pair of systems on one collection."""

    set: str
    corpus: str
    first: str
    second: str
    estimate: Estimate
    truth: float
    error: float  # standard error of the truth

    @property
    def covered(self) -> bool:
        """Whether the truth lies in the 80 % interval."""
        low, high = self.estimate.interval()
        return low <= self.truth <= high

    @property
    def wrong(self) -> bool:
        """Whether a difference is called that has the other sign."""
        return self.estimate.is_called and self.estimate.mean * self.truth < 0

    @property
    def real(self) -> bool:
        """Whether judged queries tell the two apart."""
        return abs(self.truth) > 1.96 * self.error


def rows_of(predicted: Sequence[tuple[Measured, Prediction]]) -> list[Row]:
    """Return all pairs of systems."""
    rows = []
    for one, prediction in predicted:
        noise = one.noise
        for first, second in combinations(range(len(one.systems)), 2):
            error = noise[first, first] + noise[second, second] - 2 * noise[first, second]
            names = one.systems[first], one.systems[second]
            estimate = prediction.difference(first, second)
            truth = float(one.truth[first] - one.truth[second])
            rows.append(Row(one.name, one.corpus, *names, estimate, truth, max(float(error), 0.0) ** 0.5))
    return rows


def averaged(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    """Return the mean over corpora of the mean over pairs."""
    by_corpus: dict[str, list[float]] = {}
    for row in rows:
        by_corpus.setdefault(row.corpus, []).append(value(row))
    return float(np.mean([np.mean(values) for values in by_corpus.values()])) if by_corpus else 0.0


def taus(
    predicted: Sequence[tuple[Measured, Prediction]],
    score: Callable[[Measured, Prediction], Double],
    without: str = "",
) -> float:
    """Return Kendall's tau with the judged order, the mean over corpora."""
    by_corpus: dict[str, list[float]] = {}
    for one, prediction in predicted:
        kept = [place for place, name in enumerate(one.systems) if name != without]
        tau = stats.kendalltau(score(one, prediction)[kept], one.truth[kept]).statistic
        by_corpus.setdefault(one.corpus, []).append(float(tau))
    return float(np.mean([np.mean(values) for values in by_corpus.values()]))


def reliability_of(predicted: Sequence[tuple[Measured, Prediction]]) -> Reliability:
    """Return how predictions held."""
    rows = rows_of(predicted)
    called = averaged(rows, lambda row: row.estimate.is_called)
    wrong = averaged(rows, lambda row: row.wrong)
    return Reliability(
        corpora=len({one.corpus for one, _ in predicted}),
        pairs=len(rows),
        tau=round(taus(predicted, lambda one, prediction: prediction.mean), 3),
        coverage=round(averaged(rows, lambda row: row.covered), 3),
        called=round(called, 3),
        wrong=round(wrong / called if called else 0.0, 4),
        error=round(averaged(rows, lambda row: (row.estimate.mean - row.truth) ** 2) ** 0.5, 2),
    )


def updated(predicted: Sequence[tuple[Measured, Prediction]], count: int) -> dict[str, float]:
    """Update predictions with judged queries of a collection, and compare with its other queries."""
    found: list[tuple[float, ...]] = []
    for one, prediction in predicted:
        total = one.real.shape[1]
        if total < count + 30:
            continue
        generator = np.random.default_rng(0)
        own: list[tuple[float, ...]] = []
        for _ in range(_SPLITS):
            order = generator.permutation(total)
            for first, second in combinations(range(len(one.systems)), 2):
                apart = one.real[first] - one.real[second]
                some, others = apart[order[:count]], apart[order[count:]]
                estimate = prediction.difference(first, second).updated(
                    some, prediction.query_variance(first, second)
                )
                low, high = estimate.interval()
                reach = stats.t.ppf(0.9, count - 1) * some.std(ddof=1) / count**0.5
                truth = others.mean()
                own.append((low <= truth <= high, (high - low) / 2, abs(some.mean() - truth) <= reach, reach))
        found.append(tuple(np.mean(own, axis=0)))
    if not found:
        return {}
    names = ("coverage", "half_width", "coverage_of_judged_alone", "half_width_of_judged_alone")
    return {
        "collections": len(found),
        **dict(zip(names, np.mean(found, axis=0).round(3).tolist(), strict=True)),
    }


def checks_of(predicted: Sequence[tuple[Measured, Prediction]], kinds: Sequence[str]) -> dict[str, Any]:
    """Return what the bars ask, all leave-one-corpus-out."""

    def plain(one: Measured, _: Prediction) -> Double:
        return np.asarray(np.mean([one.evidence.means[kind] for kind in kinds], axis=0))

    def model(_: Measured, prediction: Prediction) -> Double:
        return prediction.mean

    rows = rows_of(predicted)
    apart = [row for row in rows if row.real]
    return {
        "tau without bm25": round(taus(predicted, model, "bm25"), 3),
        "tau of the plain mean": round(taus(predicted, plain), 3),
        "tau of the plain mean without bm25": round(taus(predicted, plain, "bm25"), 3),
        "called of those that judged queries tell apart": round(
            averaged(apart, lambda row: row.estimate.is_called), 3
        ),
        "wrong by more than 5 points, significantly": [
            [row.set, row.first, row.second, round(row.estimate.mean, 1), round(row.truth, 1)]
            for row in apart
            if row.wrong and abs(row.truth) > FAR
        ],
        "with judged queries": {str(count): updated(predicted, count) for count in JUDGED},
    }


def scores_of(one: Measured, prediction: Prediction) -> dict[str, Any]:
    """Return judged, predicted and generated scores; predictions take the level of the judged ones."""
    level = one.truth.mean() - prediction.mean.mean()
    return {
        "judged": dict(zip(one.systems, one.truth.round(2).tolist(), strict=True)),
        "predicted": dict(zip(one.systems, (prediction.mean + level).round(2).tolist(), strict=True)),
        "generated": {kind: own.round(2).tolist() for kind, own in one.evidence.means.items()},
    }


def report(arguments: argparse.Namespace) -> None:
    """Fit all predictors, and write them with their reliability."""
    fitted: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    scores: dict[str, Any] = {}
    for log, kinds in product((False, True), PREDICTORS):
        some = [one for one in measured(arguments.cache, log=log) if is_of(one, kinds)]
        if len({one.corpus for one in some}) < FEWEST_CORPORA:
            continue
        predicted = list(left_out(some, kinds))
        reliability = asdict(reliability_of(predicted))
        predictor = fit(some, kinds)
        fitted.append(
            {
                "kinds": [*kinds],
                "log": log,
                "corpora": [*dict.fromkeys(one.corpus for one in some)],
                "coefficients": predictor.coefficients.round(4).tolist(),
                "uncertainty": predictor.uncertainty.round(6).tolist(),
                "variances": [round(value, 4) for value in predictor.variances],
                "reliability": reliability,
            }
        )
        found = {"reliability": reliability, **checks_of(predicted, kinds)}
        name = "+".join(kinds) + " with the queries as a log" * log
        print(name, json.dumps(found, indent=1), flush=True)
        whole[name] = found
        if not log and kinds in (FULL, FULL[1:]):
            scores.update({one.name: scores_of(one, own) for one, own in predicted})
    if arguments.calibration is not None:
        lines = ",\n".join(json.dumps(one) for one in fitted)
        about = f'"by": "benchmarks/verdicts.py", "called": {CALLED}'
        write_text(arguments.calibration, f'{{{about}, "predictors": [\n{lines}\n]}}\n')
    harness.save(arguments.output, predictors=whole, collections=scores)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    some = {"data_dir": Path, "model": str, "sets": [], "cache": RUNS}
    most = {"queries": 150, "documents": 2000, "judged": 400}  # of a kind, and of a collection
    written = {"cache": RUNS, "calibration": (Path, None), "output": (Path, None)}
    harness.run(__doc__, {"measure": (measure, {**some, **most}), "fit": (report, written)})
