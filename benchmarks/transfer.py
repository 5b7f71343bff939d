"""What SentEval's classifiers cost: ours, trained together, against one after the other as the original does.

    python benchmarks/transfer.py --output benchmarks/results/transfer.json
    python benchmarks/transfer.py --data-dir DATA --encoder all-MiniLM-L6-v2 \
        --tasks mr,cr,subj,mpqa,trec,mrpc --presets simcse-fast,simcse,sg-bert --folds 1 --threads 2 \
        --output benchmarks/results/transfer.json

Both train the classifiers of a task's cross-validation, all folds with all penalties, on the same vectors in
the same run; of a task without a test split, those of its first outer fold. The original's way is written
here in plain PyTorch: for each fold and penalty a network and an optimizer of its own. It is slow, so
`--folds` has it train the first folds only, and its time is that of those times the folds there are. It has
one thread, which is its fastest setting: its products are too small to be divided. Ours has `--threads`. The
accuracies must be the same. Without data the vectors are random, with classes that overlap.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from sentemb._files import write_json
from sentemb.encoding import load_encoder
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.transfer.folds import Fold
from sentemb.evaluation.transfer.neural import train_folds
from sentemb.evaluation.transfer.objectives import Classes
from sentemb.evaluation.transfer.presets import PRESETS, NeuralPreset
from sentemb.evaluation.transfer.tasks import TASKS, load_tasks

SEED = 1111
Split = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def vectors_of(arguments: argparse.Namespace) -> dict[str, tuple[Tensor, Tensor]]:
    """Features and classes of each task."""
    if arguments.data_dir is None:
        return {"random": random_vectors(arguments.rows, arguments.width, arguments.classes)}
    encoder = load_encoder(arguments.encoder)
    found = {}
    for task, parts in load_tasks(arguments.tasks.split(","), data_dir=arguments.data_dir).items():
        train = parts["train"]
        features = torch.from_numpy(encoder.encode(train.texts))
        if train.pairs is not None:
            second = torch.from_numpy(encoder.encode(train.pairs))
            features = torch.cat([(features - second).abs(), features * second], dim=1)
        found[task] = features, torch.from_numpy(train.labels)
    return found


def random_vectors(rows: int, width: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = np.random.default_rng(0)
    labels = generator.integers(classes, size=rows)
    centres = generator.normal(size=(classes, width)) / 4
    features = centres[labels] + generator.normal(size=(rows, width))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels)


def splits_of(task: str, labels: Tensor, folds: int) -> list[Split]:
    rows = np.arange(len(labels))
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


def timed(work: Callable[[], list[float]]) -> dict[str, Any]:
    start = time.perf_counter(), time.process_time()
    scores = work()
    return {
        "seconds": time.perf_counter() - start[0],
        "processor_seconds": time.process_time() - start[1],
        "scores": scores,
    }


def compare(
    task: str, vectors: tuple[Tensor, Tensor], preset: NeuralPreset, original_folds: int
) -> dict[str, Any]:
    features, labels = vectors
    splits = splits_of(task, labels, preset.folds)
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
    known = theirs.pop("scores")
    differences = np.abs(np.subtract(ours.pop("scores")[: len(known)], known))
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
    for task, vectors in vectors_of(arguments).items():
        for name in arguments.presets.split(","):
            preset = PRESETS[name]
            if not isinstance(preset, NeuralPreset):
                raise SystemExit(f"preset {name} trains no network")
            found = compare(task, vectors, preset, arguments.folds)
            result["tasks"][f"{task} {name}"] = found
            print(line(f"{task} {name}", found), flush=True)
    return result


def line(what: str, found: dict[str, Any]) -> str:
    def both(name: str) -> str:
        return (
            f"{name} {found[name]['seconds']:.1f} s, of processor time {found[name]['processor_seconds']:.1f}"
        )

    ratio = found["ratio"]
    return (
        f"{what}: {both('ours')}; {both('original')}; "
        f"ratio {ratio['seconds']:.1f}, of processor time {ratio['processor_seconds']:.1f}; "
        f"accuracies differ by at most {found['largest_difference_of_accuracy']:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with SentEval's data; random vectors without it")
    parser.add_argument("--encoder", default="sg-bert-mini", help="folder, hub id or bundled name")
    parser.add_argument("--tasks", default="trec", help="names with commas between")
    parser.add_argument("--presets", default="simcse-fast,simcse,sg-bert")
    parser.add_argument("--folds", type=int, default=0, help="how many the original's way trains; 0 for all")
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
