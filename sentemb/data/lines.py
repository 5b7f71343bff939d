"""Files that a path or a URI names: their bytes, decompressed, and their lines, which only a line feed ends.

The only module that imports fsspec's file systems.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal, cast

from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.errors import InputError
from sentemb.limits import limit, refuse_above

AnyPath = str | os.PathLike[str]
PACKED = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2", ".zst": "zstd"}
"""fsspec's names of compressions, by extension."""
_BUFFER = 1 << 20
_ABSENT, _FORBIDDEN = (404, 410), (401, 403, 407)  # status codes of HTTP


class RemotePath:
    """A file or folder that a URI names. Messages show it without user, password and query.

    Raises:
        InputError: fsspec does not know the protocol, or its package is missing.
    """

    def __init__(self, uri: str, folder: RemotePath | None = None) -> None:
        self._uri, self._is_web = uri, uri.lower().startswith(("http://", "https://"))
        # A name that a folder lists may contain a question mark; a link on a web page has a query behind it.
        self._shown = uri if folder and not self._is_web else without_secrets(uri)
        self._system: Any
        self._path: str
        if folder is not None:
            self._system = folder._system
            self._path = folder._path.rstrip("/") + uri.removeprefix(folder._shown.rstrip("/"))
            return
        from fsspec.core import url_to_fs

        options = {}
        if self._is_web:
            from aiohttp import ClientTimeout

            # aiohttp's own limit, five minutes in total, would end the copy of a large file.
            waits = ClientTimeout(total=None, sock_connect=30, sock_read=120)  # seconds
            client = {"timeout": waits, "trust_env": True, "headers": {"Accept-Encoding": "identity"}}
            options = {"client_kwargs": client, "simple_links": False}
        protocol, _, rest = uri.partition("://")
        with self.explained():
            try:
                self._system, self._path = url_to_fs(f"{protocol.lower()}://{rest}", **options)
            except (ImportError, ValueError) as error:  # fsspec's message names the package
                known = "use s3://, gs://, https:// or file://"
                hint = "install it with pip" if isinstance(error, ImportError) else known
                raise InputError(f"{self} cannot be read: {error}", hint) from None
            self._system.invalidate_cache()  # fsspec keeps listings for the lifetime of the process

    def __str__(self) -> str:
        return self._shown

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._shown.rstrip('/')}/{name}", self)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self._shown).name

    def is_dir(self) -> bool:
        """Tell whether it is a folder; on a web server, a page of links whose address ends in a slash."""
        return self._uri.endswith("/") if self._is_web else self._kind == "directory"

    def is_file(self) -> bool:
        """Tell whether it is a file."""
        return self._kind == "file"

    def exists(self) -> bool:
        """Tell whether it exists."""
        return self._kind != ""

    def files(self) -> list[RemotePath]:
        """Return the files of a folder and its subfolders, sorted by path, without hidden ones."""
        found, folders = [], [self._path]
        with self.explained():
            while folders:  # fsspec's own walk silently skips the folders that it may not list
                folder = folders.pop()
                for entry in self._system.ls(folder, detail=True):
                    if entry["type"] == "directory":
                        folders.append(entry["name"])
                    elif entry["name"].rstrip("/") != folder.rstrip(
                        "/"
                    ):  # object stores list a folder itself
                        found.append(PurePosixPath(entry["name"].removeprefix(self._path).lstrip("/")))
        return [self / str(path) for path in sorted(found) if not any(part[0] == "." for part in path.parts)]

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it for reading bytes, which are fetched as they are read."""
        with self.explained():
            file = self._system.open(self._path, mode)
            if self._is_web and not _has_ranges(file):
                # A server that sends files only as a whole may hang up on a slow reader.
                file = tempfile.TemporaryFile()  # noqa: SIM115  # the reader closes it
                with self._system.open(self._path, mode, block_size=0) as whole:
                    shutil.copyfileobj(whole, file, _BUFFER)
                file.seek(0)
        return io.BufferedReader(file, _BUFFER)  # finds the ends of lines faster than fsspec

    @cached_property
    def _kind(self) -> str:
        with self.explained():
            try:
                return str(self._system.info(self._path)["type"])
            except FileNotFoundError as error:
                if _is_absent(_cause(error)):
                    return ""
                raise

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of file systems, each of which has its own, into InputError."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            cause = _cause(error)
            status = getattr(cause, "status", None)
            if _is_absent(cause):
                raise InputError(f"no such file: {self}") from None
            if isinstance(cause, PermissionError) or status in _FORBIDDEN:
                raise InputError(f"{self}: permission denied", "check your credentials") from None
            reason = str(cause).partition("\n")[0] or type(cause).__name__
            if status:
                reason = f"the server answered with status {status}"
            elif isinstance(cause, OSError) and cause.errno and cause.errno > 0:
                reason = os.strerror(cause.errno)
            message = f"{self} cannot be read: {reason.replace(self._uri, self._shown)}"
            raise InputError(message, "check the address, the network and your credentials") from None


Source = Path | RemotePath
"""A file or folder, local or remote."""


def source_at(name: AnyPath) -> Source:
    """Return the file or folder that a path or URI names; InputError if fsspec does not know the protocol."""
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


def _is_absent(cause: BaseException) -> bool:
    return isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) in _ABSENT


def is_packed(path: Source) -> bool:
    """Tell by its extension whether a file is compressed."""
    return PurePosixPath(path.name).suffix.lower() in PACKED


def format_of(path: Source) -> str:
    """Return the extension of a file in lower case, without that of its compression."""
    name = PurePosixPath(path.name)
    return (name.with_suffix("") if is_packed(path) else name).suffix.lower()


@contextlib.contextmanager
def open_bytes(path: Source) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompress it, and turn what goes wrong in between into InputError."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise InputError(f"no such file: {path}")
    with (
        path.explained() if isinstance(path, RemotePath) else contextlib.nullcontext(),
        path.open("rb") as raw,
    ):
        if not is_packed(path):
            yield raw
            return
        from fsspec.compression import compr

        name = PACKED[PurePosixPath(path.name).suffix.lower()]
        if name not in compr:
            raise InputError(f"{path} needs zstandard", "pip install zstandard")
        try:
            with cast(IO[bytes], compr[name](raw, mode="rb")) as file:
                yield file
        except (InputError, MemoryError):
            raise
        except EOFError:
            message = f"{path} is truncated: its compressed data ends too early"
            raise InputError(message, "copy it again") from None
        except Exception as error:
            if getattr(error, "errno", None):  # of the disk or the network
                raise
            raise InputError(f"{path} is damaged, or not compressed as its extension says: {error}") from None


def read_lines(path: Source, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text file, numbered from 1 as in an editor and in `wc -l`.

    Only `\n` ends a line: `str.splitlines` would also break at NEL (U+0085), form feeds and six other
    characters that occur inside sentences. One `\r` before the `\n` and a byte order mark are removed.
    """
    position = number = 0
    longest = (limit("line") << 20) + 1
    with open_bytes(path) as file:
        while raw := file.readline(longest):
            number += 1
            where = f"{path}, line {number}"
            if len(raw) == longest:
                refuse_above("line", len(raw) / (1 << 20), where, "split it into several lines")
            problem = ""
            try:
                line = raw.decode(encoding)
                if "\0" in line:
                    problem = f"the file contains a NUL byte, so it is not {encoding} text"
            except UnicodeDecodeError as error:
                problem = f"byte {position + error.start} is not {encoding} (0x{raw[error.start]:02x})"
            if problem:
                raise InputError(f"{where}: {problem}", "convert the file to UTF-8")
            position += len(raw)
            line = line.removeprefix("\ufeff") if number == 1 else line
            yield number, line.removesuffix("\n").removesuffix("\r")
        size = getattr(getattr(file, "raw", None), "size", None)  # that of a remote file when it was opened
        if isinstance(path, RemotePath) and size is not None and file.tell() < size:
            raise InputError(f"{path} ends at byte {file.tell():,} of {size:,}", "run the command again")
