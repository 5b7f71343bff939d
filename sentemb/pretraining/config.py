"""Everything a pre-training run is told."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sentemb._files import read_json, write_json
from sentemb.errors import InputError

Precision = Literal["auto", "float32", "bfloat16"]
Layout = Literal["packed", "documents"]
Initialisation = Literal["cooccurrence", "random"]
# What may differ when a run is resumed: where it ends and what it writes down.
_FREE = {"max_steps", "max_minutes", "save_minutes", "log_steps", "cache", "precision", "resume", "output"}


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Settings of a run.

    Args:
        corpus: Text files (.txt, .txt.gz, .txt.xz; one document a line) or folders of them.
        output: Run folder.
        base: Model to continue from, folder or hub id; None trains a new BERT and its vocabulary.
        stack_to: Repeat the base's layers up to this number before training goes on.
        exclude: Files of sentences that no training line may contain, such as test sets.
        cache: Where tokenised text is kept; None keeps it in the run folder.
        vocabulary: Pieces of a new tokenizer.
        layers: Of a new BERT.
        width: Of a new BERT.
        heads: Of a new BERT.
        inner_width: Of a new BERT's feed-forward layers.
        positions: Of a new BERT; those beyond `length` stay untrained.
        initialise: Token embeddings of a new BERT: co-occurrence vectors or random.
        embedding_scale: Standard deviation of a rare token's co-occurrence vector.
        length: Tokens per row.
        layout: `packed` cuts the stream of documents into full blocks; `documents` is one row a document,
            bucketed by length, for models that cannot keep packed documents apart.
        masking_rate: Share of pieces to predict; BERT's is 0.15. Efficient recipes take up to 0.4 (Wettig et
            al., Should You Mask 15% in Masked Language Modeling?, EACL 2023).
        batch_size: Rows per step.
        learning_rate: At its peak.
        embedding_rate: Factor of it for the token embeddings.
        warmup: Share of the run.
        dropout: During pre-training. 0 suits text that is seen about once; the saved configuration keeps the
            model's own rate for the training that follows.
        max_steps: End by steps.
        max_minutes: End by the clock; the learning rate reaches zero there.
        save_minutes: Between checkpoints.
        log_steps: Between lines of metrics.
        validation_share: Share of documents held out.
        precision: `auto` measures which one the machine multiplies faster in.
        seed: Of initialisation, order, masks and dropout.
        resume: Go on from the last checkpoint of `output`.
    """

    corpus: tuple[Path, ...]
    output: Path
    base: str | None = None
    stack_to: int | None = None
    exclude: tuple[Path, ...] = ()
    cache: Path | None = None
    vocabulary: int = 16_000
    layers: int = 6
    width: int = 256
    heads: int = 4
    inner_width: int = 1024
    positions: int = 128
    initialise: Initialisation = "cooccurrence"
    embedding_scale: float = 0.05
    length: int = 128
    layout: Layout = "packed"
    masking_rate: float = 0.15
    batch_size: int = 32
    learning_rate: float = 5e-4
    embedding_rate: float = 1.0
    warmup: float = 0.06
    dropout: float = 0.0
    max_steps: int | None = None
    max_minutes: float | None = None
    save_minutes: float = 5.0
    log_steps: int = 50
    validation_share: float = 0.002
    precision: Precision = "auto"
    seed: int = 0
    resume: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "learning_rate", "save_minutes", "log_steps", "embedding_scale", "layers"):
            if getattr(self, name) <= 0:
                raise InputError(
                    f"{_flag(name)} {getattr(self, name)} is not positive", "give more than zero"
                )
        for name in ("warmup", "dropout", "embedding_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{_flag(name)} {getattr(self, name)} is out of range", "give 0 to 1")
        if not 0 < self.validation_share < 1:
            raise InputError(f"--validation-share {self.validation_share} is out of range", "give e.g. 0.002")
        if self.stack_to is not None and self.base is None:
            raise InputError("--stack-to without --base", "set --layers for a new model")
        if self.warmup == 1:
            raise InputError("--warmup 1 leaves no time to train", "give less than 1")

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values.

        Returns:
            Names and values.
        """
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}

    def save(self, path: Path) -> None:
        """Write the settings, for the check of a resumed run.

        Args:
            path: A JSON file.
        """
        write_json(path, self.to_dict())

    def check_same(self, path: Path) -> None:
        """Refuse to resume a run with settings that would make it another run.

        Args:
            path: Written by `save`.

        Raises:
            InputError: A setting differs, or the file is missing.
        """
        before = read_json(path)
        for name, value in self.to_dict().items():
            if name not in _FREE and before.get(name) != value:
                raise InputError(
                    f"{_flag(name)} was {before.get(name)} when the run began and is {value} now",
                    "resume with the same settings or start a new --output",
                )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
