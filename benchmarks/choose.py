"""How well `sentemb choose` ranks systems without labels: its ranking against that by judged queries.

    python benchmarks/choose.py --model all-MiniLM-L6-v2 --static static-mini --cache vectors \
        --output benchmarks/results/choose.json --summary sentemb/evaluation/choosing/agreement.json

Thirteen systems on every set of judged queries in one language that is in the data folder: BM25; the
encoder, its first 64 dimensions, its first 32 tokens, its first layer and its first three; a static encoder;
latent semantic analysis of the documents; bert-mini with mean and with CLS pooling, and sg-bert-mini; hybrids
of BM25 with the encoder and with sg-bert-mini. The true ranking is that by NDCG@10 of the judged queries, up
to `--judged` of them. `choose` sees the documents alone. Kendall's tau is tau-b over all pairs of systems.
Vectors are kept in `--cache`, and sets that `--output` holds with the same settings are not measured again.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse.linalg import svds
from sentemb.evaluation.choosing.trust import Trust
from sentence_transformers import SentenceTransformer

from sentemb._files import read_json, write_json, write_text
from sentemb.data.bm25 import count_terms
from sentemb.data.catalogue import entries
from sentemb.data.locate import MissingDataError
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.choosing.questions import cut_from
from sentemb.evaluation.choosing.ranking import Ranking, rank
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.retrieval import DenseSearcher, HybridSearcher, KeywordSearcher, Searcher
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.ranking import Hits
from sentemb.evaluation.systems import System
from sentemb.modules import load

FAR = 5.0
"""NDCG@10 x 100: a system that is worse by more must not be called the better one."""
DRAWS = 10_000
Vectors = NDArray[np.float32]


class Derived:
    """An encoder that is computed, not loaded."""

    def __init__(self, name: str, dimension: int, encode: Callable[[Sequence[str]], Vectors]) -> None:
        self.name = self.fingerprint = name
        self.dimension = dimension
        self._encode = encode

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """See `TextEncoder.encode`."""
        return self._encode(texts)

    def describe(self) -> dict[str, Any]:
        """See `TextEncoder.describe`."""
        return {"encoder": self.name, "precision": "float32"}


def latent_semantics(documents: Sequence[str], language: str, dimension: int = 200) -> Derived:
    """Latent semantic analysis: the singular vectors of the documents' weighted words."""
    counts, terms = count_terms(documents, language)
    holding = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = np.log((1 + counts.shape[0]) / (1 + holding)) + 1

    def weighted(some: Any) -> Any:
        logged = some.astype(np.float64)
        logged.data = 1 + np.log(logged.data)
        return logged.multiply(weights[None]).tocsr()

    size = min(dimension, min(counts.shape) - 1)
    axes = svds(weighted(counts), k=size, v0=np.ones(min(counts.shape)))[2].T

    def encode(texts: Sequence[str]) -> Vectors:
        return np.asarray(weighted(count_terms(texts, language, terms)[0]) @ axes, dtype=np.float32)

    return Derived("lsa", size, encode)


def copies(model: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Shorter copies of a transformer: of fewer layers, and of a shorter input."""
    for layers in (1, 3):
        built = load(model)
        network = built[0].auto_model
        network.encoder.layer = network.encoder.layer[:layers]
        network.config.num_hidden_layers = layers
        yield _saved(built, folder, f"{layers}-layers")
    built = load(model)
    built.max_seq_length = 32
    yield _saved(built, folder, "32-tokens")


def _saved(model: SentenceTransformer, folder: Path, name: str) -> tuple[str, Path]:
    model.save(str(folder / name))
    return name, folder / name


def encoders(arguments: argparse.Namespace, folder: Path) -> list[TextEncoder]:
    """The encoders that do not depend on the documents."""
    kept = {"cache_dir": arguments.cache}
    model, raw = load_encoder(arguments.model, **kept), load_encoder("sg-bert-mini", **kept)
    found = [model, raw]
    found += [load_encoder("bert-mini", pooling=pooling, **kept) for pooling in ("mean", "cls")]
    found += [load_encoder(path, **kept) for _, path in copies(arguments.model, folder)]
    found.append(Derived("64-dimensions", 64, lambda texts: model.encode(texts)[:, :64]))
    return [*found, *(load_encoder(name, **kept) for name in arguments.static)]


class LatentSearcher(DenseSearcher):
    """Latent semantic analysis, fitted on the documents that are searched: never on one with its query."""

    def __init__(self) -> None:
        super().__init__(Derived("lsa", 200, lambda texts: np.zeros((len(texts), 200), dtype=np.float32)))

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        fitted = latent_semantics(data.documents, data.language)
        return DenseSearcher(fitted).search(data, depth, progress=progress)


def searchers(given: Sequence[TextEncoder]) -> list[Searcher]:
    """All systems."""
    hybrids = [HybridSearcher(encoder) for encoder in given[:2]]
    return [*map(DenseSearcher, given), LatentSearcher(), KeywordSearcher(), *hybrids]


def some_queries(data: RetrievalSet, count: int) -> RetrievalSet:
    """A draw of the judged queries."""
    if len(data) <= count:
        return data
    kept = np.sort(np.random.default_rng(0).choice(len(data), count, replace=False))
    rows = data.judged[np.isin(data.judged[:, 0], kept)].copy()
    rows[:, 0] = np.searchsorted(kept, rows[:, 0])
    return replace(
        data,
        query_ids=[data.query_ids[place] for place in kept],
        queries=[data.queries[place] for place in kept],
        judged=rows,
    )


def compare(ranking: Ranking, truth: Mapping[str, float]) -> dict[str, Any]:
    """A ranking by cut queries beside the true scores."""
    names = [*truth]
    tau = stats.kendalltau([truth[name] for name in names], [ranking.scores[name] for name in names])
    told = [pair for pair in ranking.pairs if pair.real]
    return {
        "tau": float(tau.statistic),
        "told_apart": len(told),
        "wrong": [
            [pair.better, pair.worse, round(truth[pair.worse] - truth[pair.better], 2)]
            for pair in told
            if truth[pair.worse] - truth[pair.better] > FAR
        ],
        "truth": {name: round(value, 2) for name, value in truth.items()},
        "cut": {name: round(ranking.scores[name], 2) for name in names},
        "kinds": {
            name: {kind: round(value, 2) for kind, value in ranking.sets[name].items()} for name in names
        },
    }


def measure(name: str, arguments: argparse.Namespace, given: Sequence[TextEncoder]) -> dict[str, Any]:
    """One set."""
    data = some_queries(
        load_retrieval(name, split=split_of(name), data_dir=arguments.data_dir), arguments.judged
    )
    systems = searchers(given)
    truth = {one.name: evaluate_retrieval(one, [data]).score(data.name, "ndcg@10") for one in systems}
    questions = cut_from(data.source, count=arguments.queries, most=arguments.documents, seed=arguments.seed)
    asked: list[System] = []
    for one in systems:
        asked.append(questions.system(questions.answers(one), one.name))
    return compare(rank(asked, draws=2000, seed=arguments.seed), truth)


def split_of(name: str) -> str | None:
    """Of tldr the dev queries, of the others what is usual."""
    return "dev" if name == "tldr" else None


def summary_of(sets: Mapping[str, Mapping[str, Any]]) -> Trust:
    """What `sentemb choose` quotes."""
    taus = np.array([one["tau"] for one in sets.values()])
    drawn = np.random.default_rng(0).choice(taus, (DRAWS, len(taus))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    lowest = min(sets, key=lambda name: sets[name]["tau"])
    return Trust(
        systems=len(next(iter(sets.values()))["truth"]),
        sets=len(sets),
        tau=round(float(taus.mean()), 3),
        interval=(round(float(low), 3), round(float(high), 3)),
        lowest=round(float(taus.min()), 3),
        lowest_set=lowest,
        pairs=sum(one["told_apart"] for one in sets.values()),
        wrong=sum(len(one["wrong"]) for one in sets.values()),
    )


def page(sets: Mapping[str, Mapping[str, Any]], summary: Trust) -> str:
    """The results as markdown."""
    lines = [
        "# How far a ranking without labels can be trusted",
        "",
        f"By `benchmarks/choose.py`: {summary.sentence()}.",
        "",
        "| set | tau | told apart | wrong by more than 5 | best by judged queries | best by cut queries |",
        "|---|---:|---:|---:|---|---|",
    ]
    for name, one in sets.items():
        truth, cut = one["truth"], one["cut"]
        best = [max(scores, key=scores.__getitem__) for scores in (truth, cut)]
        found = f"{best[1]} ({truth[best[1]]:.1f})"
        cells = (
            name,
            f"{one['tau']:.2f}",
            one["told_apart"],
            len(one["wrong"]),
            f"{best[0]} ({truth[best[0]]:.1f})",
        )
        lines.append(f"| {' | '.join(map(str, cells))} | {found} |")
    return "\n".join([*lines, "", "In brackets: true NDCG@10 x 100.", ""])


def save(
    sets: Mapping[str, Mapping[str, Any]], settings: Mapping[str, int], arguments: argparse.Namespace
) -> None:
    """Write what was measured so far."""
    summary = summary_of(sets)
    whole = {"settings": settings, "versions": library_versions(), "hardware": hardware()}
    write_json(arguments.output, {**whole, "summary": asdict(summary), "sets": sets})
    write_text(arguments.output.with_suffix(".md"), page(sets, summary))
    if arguments.summary is not None:
        taus = {name: round(one["tau"], 3) for name, one in sets.items()}
        write_text(arguments.summary, json.dumps({"summary": asdict(summary), "tau": taus}, indent=1) + "\n")


def main() -> None:
    """Measure, and write JSON, a page and the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a transformer of several layers")
    parser.add_argument("--static", nargs="*", default=[], help="more encoders, such as static ones")
    of_one_language = [one.name for one in entries("retrieval") if "/cross/" not in one.name]
    parser.add_argument("--sets", nargs="*", default=of_one_language)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--cache", type=Path, required=True, help="folder of vectors")
    parser.add_argument("--queries", type=int, default=200, help="cut queries of each kind")
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--judged", type=int, default=1500, help="judged queries of a set at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--summary", type=Path, default=None)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    settings = {name: getattr(arguments, name) for name in ("queries", "documents", "judged", "seed")}
    before = read_json(arguments.output) if arguments.output.exists() else {}
    sets: dict[str, Any] = before["sets"] if before.get("settings") == settings else {}
    with tempfile.TemporaryDirectory() as folder:
        given = encoders(arguments, Path(folder))
        for name in arguments.sets:
            try:
                sets[name] = sets.get(name) or measure(name, arguments, given)
            except MissingDataError:
                continue
            print(name, f"{sets[name]['tau']:.2f}", sets[name]["wrong"], flush=True)
            save(sets, settings, arguments)
    print(summary_of(sets).sentence())


if __name__ == "__main__":
    main()
