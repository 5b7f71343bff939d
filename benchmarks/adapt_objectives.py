"""What objectives that need no pairs are worth for search in one's own documents, beside `sentemb adapt`.

    python benchmarks/adapt_objectives.py --base all-MiniLM-L6-v2 --sets cacm \
        --ways whitening simcse sg-opt --cache vectors --output benchmarks/results/adapt_objectives.json

Each starts from the base and learns from sentences of the set's documents: whitening (Su et al. 2021) and
BERT-flow (Li et al. 2020) are fitted on their vectors, SimCSE (Gao et al. 2021) and SG-OPT (Kim et al. 2021)
train with the papers' settings for as many steps as `sentemb adapt` does. All of them are compared with the
base by NDCG@10 on the set's judged queries, encoder alone. What `--output` holds is not measured again. The
flow diverges on the vectors of some finished encoders.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
from sentence_transformers import SentenceTransformer

from sentemb._files import read_json
from sentemb.adaptation.config import FINISHED, RAW, SETTINGS
from sentemb.compression import draw_texts
from sentemb.data.documents import read_unique_documents
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import load_encoder
from sentemb.evaluation.comparison import compare
from sentemb.evaluation.retrieval import DenseSearcher
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.systems import System, system_of
from sentemb.modules import load
from sentemb.pretraining.run import faster_precision
from sentemb.training import resolve, train
from sentemb.transforms import add_flow, add_whitening

_Make = Callable[[SentenceTransformer, list[str], Path, argparse.Namespace], SentenceTransformer | Path]


def _trained(recipe: str) -> _Make:
    def make(_: SentenceTransformer, texts: list[str], folder: Path, arguments: argparse.Namespace) -> Path:
        data = folder / "sentences.txt"
        data.write_text("\n".join(" ".join(text.split()) for text in texts) + "\n")
        steps = SETTINGS[RAW if arguments.raw else FINISHED]["max_steps"]
        files = {"base": arguments.base, "data": str(data), "output": str(folder / "trained"), "dev": "none"}
        values = {"max_steps": steps, "epochs": 100, "seeds": (1,), "precision": faster_precision()}
        pooling = {"pooling": "mean"} if arguments.raw else {}
        return train(resolve(recipe, overrides={**files, **values, **pooling})).output

    return make


WAYS: dict[str, _Make] = {
    "whitening": lambda model, texts, *_: add_whitening(model, texts),
    "flow": lambda model, texts, *_: add_flow(model, texts),
    "simcse": _trained("simcse"),
    "sg-opt": _trained("sg-opt"),
}


def measure(name: str, way: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One objective on one set."""
    data = load_retrieval(
        name, split="dev" if name == "tldr" else None, data_dir=arguments.data_dir
    )  # of tldr the dev queries
    model = load(arguments.base, pooling="mean" if arguments.raw else None)
    texts = draw_texts(read_unique_documents(data.source), most=arguments.sentences).training
    before = _system(model, data, "base", arguments.cache)
    with tempfile.TemporaryDirectory() as folder:
        changed = WAYS[way](model, texts, Path(folder), arguments)
        after = _system(changed, data, way, arguments.cache)
    found = compare(before, after).headline
    return {"base": found.scores[0], way: found.scores[1], "interval": found.interval, "p": found.p}


def _system(model: SentenceTransformer | Path, data: RetrievalSet, name: str, cache: Path) -> System:
    encoder = load_encoder(model, precision="reduced", cache_dir=cache)
    record: Any = evaluate_retrieval(DenseSearcher(encoder), [data])
    return replace(system_of([record], record.model), name=name)


def main() -> None:
    """Measure, and write JSON."""
    arguments = harness.options(
        __doc__,
        base=str,
        raw=False,  # the base is a raw transformer
        sets=["cacm"],
        ways=list(WAYS),
        sentences=20_000,
        data_dir=(str, None),
        cache=Path,  # folder of vectors
        output=Path,
    )
    logging.disable(logging.WARNING)
    whole = read_json(arguments.output) if arguments.output.exists() else {"runs": {}}
    runs = whole["runs"]
    for name in arguments.sets:
        for way in arguments.ways:
            key = f"{Path(arguments.base).name} {name} {way}"
            if key not in runs:
                runs[key] = measure(name, way, arguments)
                harness.save(arguments.output, runs=runs)
            one = runs[key]
            low, high = one["interval"]
            print(f"{key}: {one['base']:.1f} -> {one[way]:.1f} ({low:+.1f} to {high:+.1f})", flush=True)


if __name__ == "__main__":
    main()
