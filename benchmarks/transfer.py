r"""Compare SentEval's classifiers trained together with one after the other, as in the original.

    python benchmarks/transfer.py --output benchmarks/results/transfer.json
    python benchmarks/transfer.py --data-dir DATA --encoder all-MiniLM-L6-v2 \
        --tasks mr,cr,subj,mpqa,sst2,trec,mrpc --folds 1 --batches 20 \
        --output benchmarks/results/transfer.json

Both train the classifiers of a task's cross-validation, all folds with all penalties, on the same vectors in
the same run; for a task without a test split, those of its first outer fold. The original's way is written
here in plain PyTorch, with a network and an optimizer for each fold and penalty. It is slow, so `--folds`
trains only the first folds, and their time is scaled to all folds. It uses one thread, its fastest setting,
because its matrix products are too small to be divided. Ours uses `--threads`. The accuracies must be equal.
Without data, the vectors are random, with overlapping classes.

With data, the sentences are encoded too, ours all of them, once each, on `--threads`. The original sorts the
sentences of each file by their words and encodes 128 at a time with sentence-transformers, on equally many
threads; every N-th of its batches is timed (`--batches N`). `whole` combines both, with all outer folds of
the tasks without a test split.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from sentemb._files import write_json
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.transfer.neural import Classes, Fold, train_folds
from sentemb.evaluation.transfer.tasks import PRESETS, TASKS, NeuralPreset, load_tasks

SEED = 1111
Split = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Vectors(NamedTuple):
    """What a task's classifiers train on.

    Attributes:
        features: `(n, d)`.
        labels: `(n,)` classes.
        train: The rows that train; those after them are a dev split.
    """

    features: Tensor
    labels: Tensor
    train: int


def encoded(arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Vectors]]:
    """What encoding costs, and the features and classes of each task."""
    tasks = load_tasks(arguments.tasks.split(","), data_dir=arguments.data_dir)
    files = [
        list(texts)
        for parts in tasks.values()
        for part in parts.values()
        for texts in (part.texts, part.pairs)
        if texts is not None
    ]
    different = list(dict.fromkeys(text for texts in files for text in texts))
    encoder = load_encoder(arguments.encoder)
    encoder.encode(different[:256])  # what the first batch costs is neither's
    vectors: list[npt.NDArray[np.float32]] = []
    ours = timed(lambda: vectors.append(encoder.encode(different)))
    theirs = timed(partial(encode_as_the_original, encoder, files, arguments.batches))
    row = {text: place for place, text in enumerate(different)}

    def rows(texts: Sequence[str]) -> Tensor:
        return torch.from_numpy(vectors[0][[row[text] for text in texts]])

    found = {}
    for task, parts in tasks.items():
        chosen = [parts[name] for name in ("train", "dev") if name in parts]
        features = torch.cat([rows(part.texts) for part in chosen])
        if all(part.pairs is not None for part in chosen):
            second = torch.cat([rows(part.pairs) for part in chosen if part.pairs is not None])
            features = torch.cat([(features - second).abs(), features * second], dim=1)
        labels = torch.cat([torch.from_numpy(part.labels) for part in chosen])
        found[task] = Vectors(features, labels, len(chosen[0].texts))
    sampled = theirs.pop("result")
    original = {name: value / sampled for name, value in theirs.items()}
    ours.pop("result")
    cost = {
        "sentences": sum(map(len, files)),
        "different_sentences": len(different),
        "ours": ours,
        "original": original,
        "original_share": sampled,
        "ratio": {name: original[name] / ours[name] for name in original},
    }
    return cost, found


def encode_as_the_original(encoder: TextEncoder, files: Sequence[Sequence[str]], every: int) -> float:
    """Encode some of the original's batches; which share of the words they are."""
    assert isinstance(encoder, SentenceEncoder)
    sorted_files = [sorted(texts, key=lambda text: len(text.split())) for texts in files]
    batches = [texts[at : at + 128] for texts in sorted_files for at in range(0, len(texts), 128)]
    some = batches[every // 2 :: every]
    for batch in some:
        encoder.model.encode(batch, batch_size=128, show_progress_bar=False)
    words, of_all = (sum(len(text.split()) for batch in part for text in batch) for part in (some, batches))
    return words / of_all


def random_vectors(rows: int, width: int, classes: int) -> Vectors:
    generator = np.random.default_rng(0)
    labels = generator.integers(classes, size=rows)
    centres = generator.normal(size=(classes, width)) / 4
    features = centres[labels] + generator.normal(size=(rows, width))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return Vectors(torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels), rows)


def splits_of(task: str, vectors: Vectors, folds: int) -> list[Split]:
    labels, rows = vectors.labels, np.arange(len(vectors.labels))
    if vectors.train < len(rows):
        return [(rows[: vectors.train], rows[vectors.train :])]
    divided = StratifiedKFold(n_splits=folds, shuffle=True, random_state=SEED)
    if task in TASKS and TASKS[task].validation == "nested":
        rows = next(divided.split(rows, labels))[0]
    return [(rows[train], rows[held]) for train, held in divided.split(rows, labels[rows])]


def together(features: Tensor, labels: Tensor, splits: list[Split], preset: NeuralPreset) -> list[float]:
    folds = [Fold.seeded(train, held, preset.penalties, SEED) for train, held in splits]
    trained = train_folds(features, Classes(labels), folds, preset, seed=SEED)
    return [float(score) for one in trained for score in one.scores]


def one_after_the_other(
    features: Tensor, labels: Tensor, splits: list[Split], preset: NeuralPreset
) -> list[float]:
    return [
        fit_one(features, labels, train, held, penalty, preset)
        for train, held in splits
        for penalty in preset.penalties
    ]


def fit_one(
    features: Tensor,
    labels: Tensor,
    train: npt.NDArray[np.int64],
    held: npt.NDArray[np.int64],
    penalty: float,
    preset: NeuralPreset,
) -> float:
    random = np.random.RandomState(SEED)
    torch.manual_seed(SEED)
    model = network(features.shape[1], int(labels.max()) + 1, preset.hidden)
    kind = torch.optim.Adam if preset.optimizer == "adam" else torch.optim.RMSprop
    optimizer = kind(model.parameters(), weight_decay=penalty)
    loss_of = nn.CrossEntropyLoss()
    inputs, targets, dev_inputs, dev_targets = features[train], labels[train], features[held], labels[held]
    best, misses, epochs = -1.0, 0, 0
    while epochs <= preset.max_epochs:
        for _ in range(preset.epoch_size):
            order = torch.from_numpy(random.permutation(len(inputs)))
            for batch in order.split(preset.batch_size):
                loss = loss_of(model(inputs.index_select(0, batch)), targets.index_select(0, batch))
                loss.item()  # which the original collects
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        epochs += preset.epoch_size
        score = accuracy(model, dev_inputs, dev_targets, preset.batch_size)
        if score > best:
            best = score
            copy.deepcopy(model)
        elif misses >= preset.tenacity:
            break
        else:
            misses += 1
    return best


def network(width: int, classes: int, hidden: int) -> nn.Module:
    if not hidden:
        return nn.Sequential(nn.Linear(width, classes))
    return nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid(), nn.Linear(hidden, classes))


@torch.no_grad()
def accuracy(model: nn.Module, features: Tensor, labels: Tensor, size: int) -> float:
    right = 0
    for inputs, targets in zip(features.split(size), labels.split(size), strict=True):
        right += int((model(inputs).argmax(dim=1) == targets).sum())
    return right / len(labels)


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    start = time.perf_counter(), time.process_time()
    result = work()
    return {
        "seconds": time.perf_counter() - start[0],
        "processor_seconds": time.process_time() - start[1],
        "result": result,
    }


def compare(task: str, vectors: Vectors, preset: NeuralPreset, original_folds: int) -> dict[str, Any]:
    features, labels, _ = vectors
    splits = splits_of(task, vectors, preset.folds)
    some = splits[: original_folds or len(splits)]
    # A step each before the clock starts: what the first use of an operation costs is neither's.
    short = NeuralPreset(**vars(preset) | {"epoch_size": 1, "max_epochs": 0})
    for warm in (together, one_after_the_other):
        warm(features, labels, splits[:1], short)
    ours = timed(lambda: together(features, labels, splits, preset))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    theirs = timed(lambda: one_after_the_other(features, labels, some, preset))
    torch.set_num_threads(threads)
    share = len(splits) / len(some)
    known = theirs.pop("result")
    differences = np.abs(np.subtract(ours.pop("result")[: len(known)], known))
    original = {name: value * share for name, value in theirs.items()}
    return {
        "rows": len(labels),
        "width": features.shape[1],
        "classifiers": len(splits) * len(preset.penalties),
        "ours": ours,
        "original": original,
        "original_folds": len(some),
        "ratio": {name: original[name] / ours[name] for name in original},
        "largest_difference_of_accuracy": float(differences.max()),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    result = {
        "machine": hardware(),
        "versions": library_versions(),
        "threads": torch.get_num_threads(),
        "load_at_start": os.getloadavg()[0],
        "encoder": arguments.encoder if arguments.data_dir else None,
        "tasks": {},
    }
    if arguments.data_dir is None:
        found = {"random": random_vectors(arguments.rows, arguments.width, arguments.classes)}
    else:
        result["encoding"], found = encoded(arguments)
        print(line("encoding", result["encoding"]), flush=True)
    for task, vectors in found.items():
        for name in arguments.presets.split(","):
            preset = PRESETS[name]
            if not isinstance(preset, NeuralPreset):
                raise SystemExit(f"preset {name} trains no network")
            measured = compare(task, vectors, preset, arguments.folds)
            result["tasks"][f"{task} {name}"] = measured
            print(line(f"{task} {name}", measured), flush=True)
    for name in arguments.presets.split(",") if "encoding" in result else ():
        whole = result.setdefault("whole", {})[name] = whole_of(result, name)
        print(line(f"all, {name}, without encoding", whole["classifiers"]), flush=True)
        print(line(f"all, {name}, with encoding", whole), flush=True)
    return result


def whole_of(result: dict[str, Any], preset: str) -> dict[str, Any]:
    """What all tasks cost, with every outer fold and without the last fit of each, and with encoding."""
    measured = {
        task.removesuffix(f" {preset}"): found
        for task, found in result["tasks"].items()
        if task.endswith(f" {preset}")
    }

    def total(whose: str, encoding: dict[str, float]) -> dict[str, float]:
        sums = dict(encoding)
        for task, found in measured.items():
            times = PRESETS[preset].folds if TASKS[task].validation == "nested" else 1
            for name in sums:
                sums[name] += times * found[whose][name]
        return sums

    def both(encoding: dict[str, Any]) -> dict[str, Any]:
        ours, original = (total(whose, encoding[whose]) for whose in ("ours", "original"))
        return {
            "ours": ours,
            "original": original,
            "ratio": {name: original[name] / ours[name] for name in ours},
        }

    nothing = dict.fromkeys(("seconds", "processor_seconds"), 0.0)
    classifiers = both({"ours": nothing, "original": nothing})
    return {**both(result["encoding"]), "classifiers": classifiers}


def line(what: str, found: dict[str, Any]) -> str:
    def both(name: str) -> str:
        return (
            f"{name} {found[name]['seconds']:.1f} s, of processor time {found[name]['processor_seconds']:.1f}"
        )

    ratio, difference = found["ratio"], found.get("largest_difference_of_accuracy")
    return (
        f"{what}: {both('ours')}; {both('original')}; "
        f"ratio {ratio['seconds']:.1f}, of processor time {ratio['processor_seconds']:.1f}"
    ) + ("" if difference is None else f"; accuracies differ by at most {difference:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with SentEval's data; random vectors without it")
    parser.add_argument("--encoder", default="sg-bert-mini", help="folder, hub id or bundled name")
    parser.add_argument("--tasks", default="trec", help="names with commas between")
    parser.add_argument("--presets", default="simcse-fast,simcse,sg-bert")
    parser.add_argument("--folds", type=int, default=0, help="how many the original's way trains; 0 for all")
    parser.add_argument("--batches", type=int, default=20, help="the original encodes every N-th of its own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=5000, help="of random vectors")
    parser.add_argument("--width", type=int, default=384, help="of random vectors")
    parser.add_argument("--classes", type=int, default=2, help="of random vectors")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments)
    if arguments.output is not None:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
