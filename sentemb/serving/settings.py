"""Settings of a server: models, address and access."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from sentemb._uris import is_loopback
from sentemb.encoding.encoder import Precision
from sentemb.errors import InputError

KEYS_VARIABLE = "SENTEMB_API_KEYS"
"""Environment variable with the keys, separated by commas."""
_MIN_KEY = 16


@dataclass(frozen=True, kw_only=True, config=ConfigDict(use_attribute_docstrings=True))
class Settings:
    """Settings of a server; the options of `sentemb serve` are derived from them."""

    models: tuple[str, ...] = ()
    """Encoders: names, folders or hub ids."""
    indexes: tuple[Path, ...] = ()
    """Index folder to serve. Repeat for several."""
    rerankers: tuple[str, ...] = ()
    """Cross-encoder to serve for reranking: a folder. Repeat for several."""
    classifiers: tuple[Path, ...] = ()
    """Classifier folder to serve. Repeat for several."""
    host: str = "127.0.0.1"
    """Address to listen on. The default accepts requests from this machine only."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on. 0 chooses a free one."""
    keys: frozenset[str] | None = None
    """API keys, of which a request must send one; None accepts every request."""
    no_auth: bool = False
    """Accept requests from other machines without a key. They cannot change an index."""
    read_only: bool = False
    """Do not allow changes of an index."""
    truncate: Literal["error", "truncate"] = "error"
    """Texts longer than the model's maximum length: answer with an error, or truncate and count them."""
    workers: int | None = Field(None, ge=1)
    """Number of model threads, each on one core. The default is all cores."""
    precision: Precision = "float32"
    """reduced: use fewer bits (bfloat16) where that is faster. Indexes must have been built with it."""
    device: str | None = None
    """Device, such as cpu or cuda:0. The default is a GPU if there is one."""
    max_body: int = 32 * 1024 * 1024
    """Bytes in the body of a request."""
    max_waiting: int = 2_000_000
    """Tokens (estimated) that may wait for a model thread; further requests get status 429."""
    max_requests: int = 512
    """Requests that may be open; further ones get status 429."""
    stop_seconds: float = 30.0
    """How long accepted requests may take after a signal to stop."""

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def is_writable(self) -> bool:
        """Return whether clients may change indexes; clients on other machines need a key."""
        return not self.read_only and (self.keys is not None or self.is_loopback)

    def checked(self) -> Settings:
        """Return the settings; raise InputError if they serve nothing or do not fit together."""
        if not (self.models or self.indexes or self.rerankers or self.classifiers):
            raise InputError("there is nothing to serve", "name a model, or an index with --index FOLDER")
        cores = os.cpu_count() or 1
        if self.workers is not None and self.workers > cores:
            raise InputError(
                f"--workers {self.workers}: this machine has {cores} cores", f"choose {cores} or fewer"
            )
        if self.keys is None and not self.is_loopback and not self.no_auth:
            raise InputError(
                f"--host {self.host} accepts requests from other machines, but no API key is set",
                f"pass --keys FILE, set {KEYS_VARIABLE}, or pass --no-auth to let everyone read",
            )
        if self.keys is not None and self.no_auth:
            raise InputError("API keys and --no-auth cannot be combined", "remove one of them")
        return self


def read_keys(file: Path | None) -> frozenset[str] | None:
    """Read API keys from a file, one per line, or from the environment; None if there are none."""
    if file is not None:
        try:
            lines, place = file.read_text(encoding="utf-8-sig").splitlines(), str(file)
        except UnicodeDecodeError:
            raise InputError(f"{file} is not UTF-8", "write one key per line") from None
        except OSError as error:
            raise InputError(
                f"cannot read {file}: {error.strerror}", "name a file with one key per line"
            ) from None
    elif given := os.environ.get(KEYS_VARIABLE):
        lines, place = given.split(","), KEYS_VARIABLE
    else:
        return None
    keys = [key for key in map(str.strip, lines) if key]
    if not keys:
        raise InputError(f"{place} does not contain a key", "write one key per line")
    for number, key in enumerate(keys, start=1):
        if len(key) < _MIN_KEY or not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(
                f"key {number} of {place} is not {_MIN_KEY} or more printable ASCII characters",
                "make one with `openssl rand -hex 32`",
            )
    return frozenset(keys)
