"""A run's folder: the finished model at its top, everything about the run in `run/`.

sg-bert-base/           loads as SentenceTransformer("sg-bert-base")
└─ run/
   ├─ config.toml       every value of the configuration
   ├─ record.json       versions, data, hardware, timings, scores, state of the run
   ├─ metrics.jsonl     loss components and dev scores over time
   └─ checkpoints/
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._files import held, read_json, sha256_of, without_dots, write_json, write_text, writing
from sentemb._uris import is_remote, local_path
from sentemb.errors import InputError
from sentemb.training.values import read_toml, to_toml

# Of the record, what a resumed run reads.
_PARTS = {"sessions": list, "data": dict, "loss": dict, "inputs": dict}
# bert-mini, 60 steps of SimCSE: no weight differs by more, nor does the dev set's Spearman, a fraction.
_OTHER_THREADS = (
    "another thread count changes the rounding of sums: weights by up to about 2e-4, dev Spearman by up "
    "to 1e-6"
)
_DEV = "eval_dev_"


class LearningCurves(NamedTuple):
    """Measures over the steps of a run."""

    dev: str  # what results call the dev set
    steps: tuple[int, ...]  # after which the dev set was evaluated, ascending; 0 is the base model
    values: Mapping[str, tuple[float, ...]]  # measure to its value at each step


class RunFolder:
    """Paths and state of one run."""

    def __init__(self, path: Path) -> None:
        self.path = without_dots(path)
        self.run = self.path / "run"
        self.config = self.run / "config.toml"
        self.record = self.run / "record.json"
        self.metrics = self.run / "metrics.jsonl"
        self.checkpoints = self.run / "checkpoints"

    def check(self, config: Any, *, resume: bool) -> None:
        """Raise InputError if this run may not have the folder. Nothing is written."""
        to_toml(config.values())  # refuses what it could not write later
        if not self.config.exists():
            # A run that died before it wrote its configuration leaves a lock and half a file at most.
            left = {self.run / "lock", *self.run.glob("*.partial")}
            others = (file for file in self.path.rglob("*") if file.is_file() and file not in left)
            if self.path.is_file() or any(others):
                raise InputError(
                    f"{self.path} already exists and does not contain a run", "choose another --output"
                )
            return
        if self.status() == "finished":
            raise InputError(f"{self.path} already contains a finished run", "choose another --output")
        if differing := self.differing(config):
            raise InputError(
                f"{self.path} contains an interrupted run with other values of {', '.join(differing)}",
                "use the same values to resume it, or choose another --output",
            )
        if not resume:
            raise InputError(
                f"{self.path} contains an interrupted run with the same configuration",
                "add --resume to continue it",
            )

    @contextlib.contextmanager
    def claimed(self, config: Any, *, resume: bool) -> Iterator[None]:
        """Take the folder for a run and keep other processes out while it lasts."""
        self.check(config, resume=resume)
        busy = f"another process is training in {self.path}"
        with held(self.run / "lock", busy, "wait for it or choose another --output"):
            self.check(config, resume=resume)
            write_text(self.config, to_toml(config.values()))
            yield

    def status(self) -> str | None:
        """Return the state of the run."""
        status: str | None = self.read_record().get("status")
        return status

    def read_record(self) -> dict[str, Any]:
        """Return the record so far."""
        record = read_json(self.record) if self.record.exists() else {}
        if not isinstance(record, dict) or any(
            not isinstance(record.get(name, kind()), kind) for name, kind in _PARTS.items()
        ):
            raise InputError(f"{self.record} is not a valid run record", "choose another --output")
        return record

    def update_record(self, **values: Any) -> dict[str, Any]:
        """Add to the record."""
        record = self.read_record() | values
        write_json(self.record, record)
        return record

    def append_metrics(self, entry: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        with writing(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the entries of the metrics; a killed run, or one in progress, can leave half a line."""
        entries = []
        for line in self.metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                entries.append(json.loads(line))
        return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("step"), int)]

    def rewind_metrics(self, step: int) -> None:
        """Drop the metrics after a step, which a resumed run is about to write again."""
        if self.metrics.exists():
            kept = [json.dumps(entry) + "\n" for entry in self.read_metrics() if entry["step"] <= step]
            write_text(self.metrics, "".join(kept))

    def publish(self, model: Path) -> None:
        """Move a complete model to the top of the folder.

        `modules.json` comes first and the weights last: between the two every loader fails, so that none can
        take a part for the whole.
        """
        entries = sorted(
            model.iterdir(),
            key=lambda path: (path.suffix == ".safetensors", path.name != "modules.json", path.name),
        )
        for entry in entries:
            target = self.path / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.replace(target)
        model.rmdir()

    def differing(self, config: Any) -> list[str]:
        """Return the fields in which a configuration departs from the one that began the run."""
        inputs, values = self.read_record().get("inputs", {}), config.values()
        before, now = read_toml(self.config), tomllib.loads(to_toml(values))  # so that both sides say "none"
        names = (before.keys() | now.keys()) - set(config.free_to_change)
        changed = sorted(name for name in names if before.get(name, "none") != now.get(name))
        return [
            name for name in changed if name not in inputs or inputs[name] != _content_of(values.get(name))
        ]

    @staticmethod
    def inputs(config: Any) -> dict[str, str]:
        """Return the checksums of the files and folders that a configuration names, by field."""
        values = {name: value for name, value in config.values().items() if name not in config.free_to_change}
        return {name: found for name, value in values.items() if (found := _content_of(value)) is not None}


def _content_of(value: Any) -> str | None:
    """Return the checksum of the file or folder that a value names; None where it names none."""
    if not isinstance(value, str) or is_remote(value):
        return None
    path = local_path(value)
    if path.is_file():
        return sha256_of(path)
    if not path.is_dir():
        return None
    files = [one.relative_to(path) for one in sorted(path.rglob("*")) if one.is_file()]
    named = {str(one): sha256_of(path / one) for one in files if not one.parts[0].startswith(".")}
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def describe_environment() -> dict[str, Any]:
    """Return versions, hardware and threads for a record."""
    import torch

    from sentemb.evaluation.environment import hardware, library_versions

    return {
        "versions": library_versions(),
        "hardware": hardware(),
        "threads": torch.get_num_threads(),
        "reproducible": f"bit for bit on this processor with the same number of threads; {_OTHER_THREADS}",
    }


def read_learning_curves(folder: Path, measures: Sequence[str]) -> LearningCurves | None:
    """Read measures of the dev set over the steps of a run; None if the folder has no such run."""
    from sentemb.data.files import name_and_split, names_a_file

    run = RunFolder(folder)
    if not (run.config.is_file() and run.metrics.is_file()):
        return None
    config = read_toml(run.config)
    if "dev" not in config:
        return None
    names = [_DEV + measure for measure in measures]
    # A step can be evaluated twice: at its turn, and at the end of the run.
    entries = {one["step"]: one for one in run.read_metrics() if all(name in one for name in names)}
    if not entries:
        raise InputError(
            f"{run.metrics} does not contain a step with {' and '.join(measures)}",
            "train with a dev set (--dev) to record them",
        )
    steps = tuple(sorted(entries))
    values = {measure: tuple(float(entries[step][_DEV + measure]) for step in steps) for measure in measures}
    dev = config["dev"]
    return LearningCurves(name_and_split(local_path(dev))[0] if names_a_file(dev) else dev, steps, values)
