"""The translations of one translator on disk, a line of JSON for each batch."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sentemb._files import held, write_text
from sentemb.augmentation.translator import Translator
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

_FORMAT = 1


class TranslationStore:
    """Translations kept in a file, which one process at a time can have `opened`.

    The file is named by the translator's fingerprint and its first line is the manifest. Each further line
    holds a batch and its checksum, and is on the disk before the next batch is translated: a killed process
    loses one batch. A last line without its end is such a loss, and is taken away.
    """

    def __init__(self, folder: Path, translator: Translator) -> None:
        name = hashlib.sha256(translator.fingerprint.encode()).hexdigest()[:16]
        self.path = folder / f"{name}.jsonl"
        self._translator = translator

        self._known: dict[int, dict[str, str]] = {}

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Hold the file, which no other process can then open."""
        busy = f"another process is translating into {self.path}"
        with held(self.path.with_suffix(".lock"), busy, "wait until it ends, or choose another folder"):
            self._open()
            yield self

    def known(self, draw: int) -> Mapping[str, str]:
        """What has been translated."""
        return self._known.setdefault(draw, {})

    def add(self, texts: Sequence[str], translations: Sequence[str], *, draw: int) -> None:
        """Keep the translations of a batch."""
        batch = {"draw": draw, "texts": list(texts), "translations": list(translations)}
        line = json.dumps({**batch, "crc32": _checksum(batch)}, ensure_ascii=False)
        with self.path.open("ab") as file:
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self._keep(batch)

    def _open(self) -> None:
        if not self.path.exists():
            manifest = {
                "format": _FORMAT,
                "fingerprint": self._translator.fingerprint,
                "translator": self._translator.describe(),
            }
            write_text(self.path, json.dumps(manifest, ensure_ascii=False) + "\n")
            return
        *lines, rest = self.path.read_bytes().split(b"\n")
        self._check_manifest(lines[0] if lines else rest)
        for number, line in enumerate(lines[1:], start=2):
            self._keep(self._batch(line, number))
        if rest:
            logger.warning("%s: the last line is incomplete and is skipped", self.path)
            os.truncate(self.path, self.path.stat().st_size - len(rest))

    def _check_manifest(self, line: bytes) -> None:
        manifest = _parsed(line) or {}
        same = manifest.get("fingerprint") == self._translator.fingerprint
        if manifest.get("format") != _FORMAT or not same:
            raise InputError(
                f"{self.path}, line 1 is not a manifest of translations by {self._translator.name}",
                "delete the file, or choose another folder",
            )

    def _batch(self, line: bytes, number: int) -> dict[str, Any]:
        batch = _parsed(line) or {}
        checksum = batch.pop("crc32", None)
        if checksum is None or checksum != _checksum(batch):
            raise InputError(
                f"{self.path}, line {number} is damaged",
                "delete the line; its text is then translated again",
            )
        return batch

    def _keep(self, batch: Mapping[str, Any]) -> None:
        pairs = zip(batch["texts"], batch["translations"], strict=True)
        self._known.setdefault(batch["draw"], {}).update(pairs)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # not JSON, or not UTF-8
        return None
    return value if isinstance(value, dict) else None


def _checksum(batch: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(batch, sort_keys=True).encode())
