"""What a server serves, where, and to whom."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sentemb._network import is_loopback
from sentemb.encoding.encoder import Precision
from sentemb.errors import InputError
from sentemb.serving.schemas import Truncate

KEYS_VARIABLE = "SENTEMB_API_KEYS"
"""Environment variable with the keys, separated by commas."""
_MIN_KEY = 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a server.

    Args:
        models: Encoders: names, folders or hub ids.
        indexes: Index folders.
        rerankers: Folders of cross-encoders.
        classifiers: Folders of classifiers.
        host: Address to listen on.
        port: Port to listen on; 0 chooses a free one.
        keys: API keys, of which a request must send one; None accepts every request.
        no_auth: Serve without keys on an address that other machines reach; they cannot change an index.
        read_only: Do not allow changes of an index.
        precision: As for `load_encoder`.
        device: As for `load_encoder`.
        truncate: What happens to long texts if a request does not say.
        workers: Model threads, each on one core; None takes as many as torch does. One more thread computes
            interactive requests only.
        max_body: Bytes in the body of a request.
        max_waiting: Tokens (estimated) that may wait for a model thread; further requests get status 429.
        max_requests: Requests that may be open; further ones get status 429.
        stop_seconds: How long accepted requests may take after a signal to stop.
    """

    models: tuple[str, ...] = ()
    indexes: tuple[Path, ...] = ()
    rerankers: tuple[str, ...] = ()
    classifiers: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    keys: frozenset[str] | None = None
    no_auth: bool = False
    read_only: bool = False
    precision: Precision = "float32"
    device: str | None = None
    truncate: Truncate = "error"
    workers: int | None = None
    max_body: int = 32 * 1024 * 1024
    max_waiting: int = 2_000_000
    max_requests: int = 512
    stop_seconds: float = 30.0

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    @property
    def is_writable(self) -> bool:
        """Whether clients may change indexes; other machines never without a key."""
        return not self.read_only and (self.keys is not None or self.is_loopback)

    def checked(self) -> Settings:
        """Return the settings.

        Raises:
            InputError: There is nothing to serve, or other machines would not need a key by mistake.
        """
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
    """Read API keys.

    Args:
        file: A file with one key per line; None reads the environment variable.

    Returns:
        The keys; None if there is neither a file nor a variable.

    Raises:
        InputError: The file cannot be read, has no key, or one that is too short.
    """
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
