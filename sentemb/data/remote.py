"""Files and folders that a URI names. The only module that imports fsspec's file systems."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal

from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.errors import InputError

_WEB = ("http", "https")
_CONNECT, _READ = 30, 120  # seconds to wait for a server
_BUFFER = 1 << 20
_ABSENT, _FORBIDDEN = (404, 410), (401, 403, 407)  # status codes of HTTP


class RemotePath:
    """A file or folder that a URI names. Messages show it without user, password and query.

    Args:
        uri: Such as `s3://bucket/docs.jsonl`.
        within: The folder that lists it and its path below that folder, if known.

    Raises:
        InputError: fsspec does not know the protocol, or its package is missing.
    """

    def __init__(self, uri: str, within: tuple[RemotePath, str] | None = None) -> None:
        self._uri = uri
        self._protocol = uri.partition("://")[0].lower()
        # A name that a folder lists may contain a question mark; a link on a web page has a query behind it.
        self._shown = uri if within and self._protocol not in _WEB else without_secrets(uri)
        if within is None:
            self._system, self._path = self._connect()
        else:
            folder, name = within
            self._system, self._path = folder._system, f"{folder._path.rstrip('/')}/{name}"

    def __str__(self) -> str:
        return self._shown

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._shown.rstrip('/')}/{name}", (self, name))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self._shown).name

    def is_dir(self) -> bool:
        """Tell whether it is a folder; on a web server, a page of links whose address ends in a slash."""
        return self._uri.endswith("/") if self._protocol in _WEB else self._kind == "directory"

    def is_file(self) -> bool:
        """Tell whether it is a file."""
        return self._kind == "file"

    def exists(self) -> bool:
        """Tell whether it exists."""
        return self._kind != ""

    def files(self) -> list[RemotePath]:
        """Return the files of a folder and its subfolders, sorted by path, without hidden ones."""
        with self.explained():
            found = [path.removeprefix(self._path).lstrip("/") for path in self._walk(self._path)]
        inner = sorted(map(PurePosixPath, found))
        return [self / str(path) for path in inner if not any(part.startswith(".") for part in path.parts)]

    def _walk(self, folder: str) -> Iterator[str]:
        # fsspec's own walk silently skips the folders that it may not list.
        for entry in self._system.ls(folder, detail=True):
            if entry["type"] == "directory":
                yield from self._walk(entry["name"])
            elif entry["name"].rstrip("/") != folder.rstrip("/"):  # object stores may list a folder in itself
                yield entry["name"]

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it for reading bytes, which are fetched as they are read."""
        with self.explained():
            file = self._system.open(self._path, mode)
            if self._protocol in _WEB and not _has_ranges(file):
                file = self._download()
        return io.BufferedReader(file, _BUFFER)  # finds the ends of lines faster than fsspec

    def _download(self) -> IO[bytes]:
        """Copy to disk what a web server sends as a whole only: it may hang up on a slow reader."""
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # the reader closes it
        with self._system.open(self._path, "rb", block_size=0) as file:
            while block := file.read(_BUFFER):
                copy.write(block)
        copy.seek(0)
        return copy

    def check_complete(self, file: IO[bytes]) -> None:
        """Raise InputError if an opened file ended before the size that it had when it was opened."""
        size = getattr(getattr(file, "raw", None), "size", None)
        if size is not None and file.tell() < size:
            raise InputError(f"{self} ends at byte {file.tell():,} of {size:,}", "run the command again")

    @cached_property
    def _kind(self) -> str:
        with self.explained():
            try:
                return str(self._system.info(self._path)["type"])
            except FileNotFoundError as error:
                if _is_absent(error):
                    return ""
                raise

    def _connect(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        _check_protocol(self._protocol, str(self))
        options = _web_options() if self._protocol in _WEB else {}
        with self.explained():
            system, path = url_to_fs(self._protocol + self._uri[len(self._protocol) :], **options)
            system.invalidate_cache()  # fsspec keeps listings for the lifetime of the process
        return system, path

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of file systems, each of which has its own, into InputError."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> InputError:
        cause = _cause(error)
        status = getattr(cause, "status", None)
        if _is_absent(error):
            return InputError(f"no such file: {self}")
        if isinstance(cause, PermissionError) or status in _FORBIDDEN:
            return InputError(f"{self}: permission denied", "check your credentials")
        number = cause.errno if isinstance(cause, OSError) else None
        reason = str(cause).partition("\n")[0] or type(cause).__name__
        if status:
            reason = f"the server answered with status {status}"
        elif number is not None and number > 0:
            reason = os.strerror(number)
        return InputError(
            f"{self} cannot be read: {reason.replace(self._uri, self._shown)}",
            "check the address, the network and your credentials",
        )


Source = Path | RemotePath
"""A file or folder, local or remote."""


def source_at(name: str | os.PathLike[str]) -> Source:
    """Return the file or folder that a path or URI names.

    Raises:
        InputError: fsspec does not know the protocol of a URI, or its package is missing.
    """
    return RemotePath(os.fspath(name)) if is_remote(name) else local_path(name)


def _has_ranges(file: Any) -> bool:
    """Tell whether a web server sends parts of a file; one that does not answers with all of it."""
    try:
        return bool((file.size or 0) > 1 and file._fetch_range(1, 2))
    except ValueError:
        return False


def _cause(error: BaseException) -> BaseException:
    """Return what a client met, since fsspec turns every failure into a missing file."""
    inner = error.__cause__
    if inner is not None and (isinstance(inner, OSError) or type(inner).__module__.startswith("aiohttp")):
        return _cause(inner)
    return error


def _is_absent(error: BaseException) -> bool:
    cause = _cause(error)
    return isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) in _ABSENT


def _check_protocol(protocol: str, name: str) -> None:
    """Raise InputError if fsspec does not know a protocol, or its package is missing."""
    from fsspec.registry import get_filesystem_class, known_implementations

    try:
        get_filesystem_class(protocol)
    except ValueError:
        hint = "use s3://, gs://, https:// or file://"
        raise InputError(f"{name}: unknown protocol {protocol}://", hint) from None
    except ImportError as error:
        known = known_implementations[protocol]
        package = known["class"].partition(".")[0]
        if package == "fsspec":  # its message names the package that it needs
            raise InputError(f"{name} cannot be read: {known.get('err', error)}") from None
        raise InputError(f"{name} needs {package}", f"pip install {package}") from None


def _web_options() -> dict[str, Any]:
    """Return the options of HTTP: proxies of the environment, no compression on the way, patience."""
    from aiohttp import ClientTimeout

    # aiohttp's own limit, five minutes in total, would end the copy of a large file.
    waits = ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_READ)
    client = {"timeout": waits, "trust_env": True, "headers": {"Accept-Encoding": "identity"}}
    return {"client_kwargs": client, "simple_links": False}
