"""Files and folders that a URI names, as far as readers need a `Path`; the only place that knows fsspec."""

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

_HTTP = ("http", "https")
_CONNECT, _READ = 30, 120  # seconds to wait for a server
_BUFFER = 1 << 20
_ABSENT, _FORBIDDEN = (404, 410), (401, 403, 407)  # of HTTP


class RemotePath:
    """A file or folder that a URI names; what is said of it has neither user, password nor query.

    Args:
        uri: Such as `s3://bucket/docs.jsonl`.
        within: A folder and the URI's path below it, if they are known.

    Raises:
        InputError: fsspec knows no such protocol, or a package for it is missing.
    """

    def __init__(self, uri: str, within: tuple[RemotePath, str] | None = None) -> None:
        self._uri = uri
        self._protocol = uri.partition("://")[0].lower()
        # What a folder lists is a name throughout, but for the links of web pages.
        whole = within is not None and self._protocol not in _HTTP
        self._shown = uri if whole else without_secrets(uri)
        if within is None:
            self._system, self._path = self._connected()
        else:
            folder, name = within
            self._system, self._path = folder._system, f"{folder._path.rstrip('/')}/{name}"

    def __str__(self) -> str:
        return self._shown

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._shown.rstrip('/')}/{name}", (self, name))

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self._shown).name

    @property
    def suffix(self) -> str:
        """The suffix of the last part."""
        return PurePosixPath(self._shown).suffix

    def is_dir(self) -> bool:
        """Whether it is a folder; of a web server a page of links, whose address ends in a slash."""
        if self._protocol in _HTTP:
            return self._uri.endswith("/")
        return self._kind == "directory"

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._kind == "file"

    def exists(self) -> bool:
        """Whether it is there."""
        return self._kind != ""

    def files(self) -> list[RemotePath]:
        """The files of a folder and its subfolders, by their paths; hidden ones are left out."""
        with self._reached():
            found = [*self._walked(self._path)]
        inner = sorted(PurePosixPath(path.removeprefix(self._path).lstrip("/")) for path in found)
        return [self / str(path) for path in inner if not any(part.startswith(".") for part in path.parts)]

    def _walked(self, folder: str) -> Iterator[str]:
        # fsspec's own walk leaves out, without a word, what it may not list.
        for entry in self._system.ls(folder, detail=True):
            if entry["type"] == "directory":
                yield from self._walked(entry["name"])
            elif entry["name"].rstrip("/") != folder.rstrip("/"):  # object stores may list a folder in itself
                yield entry["name"]

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it for reading bytes; what is not read yet is not there yet."""
        with self._reached():
            file = self._system.open(self._path, mode)
            if self._protocol in _HTTP and not file.size:
                file = self._whole()
        return io.BufferedReader(_Reader(self, file), _BUFFER)

    def _whole(self) -> IO[bytes]:
        """A copy on disk of what a web server gives only as a whole, and hangs up on who reads it slowly."""
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # the reader closes it
        with self._system.open(self._path, "rb", block_size=0) as file:
            while block := file.read(_BUFFER):
                copy.write(block)
        copy.seek(0)
        return copy

    @cached_property
    def _kind(self) -> str:
        with self._reached():
            try:
                return str(self._system.info(self._path)["type"])
            except FileNotFoundError as error:
                if _is_absent(error):
                    return ""
                raise

    def _connected(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        _check_protocol(self._protocol, str(self))
        options = _web_options() if self._protocol in _HTTP else {}
        with self._reached():
            system, path = url_to_fs(self._protocol + self._uri[len(self._protocol) :], **options)
            system.invalidate_cache()  # fsspec keeps listings as long as the process lives
        return system, path

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn errors of file systems, each of which has its own, into the user's."""
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


class _Reader(io.RawIOBase):
    """A file of fsspec behind Python's own buffer, which finds the ends of lines faster."""

    def __init__(self, path: RemotePath, file: Any) -> None:
        super().__init__()
        self._path, self._file = path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        with self._path._reached():
            block = self._read(len(buffer))
            place, size = self._file.tell(), getattr(self._file, "size", None)
        if not block and len(buffer) and size is not None and place < size:
            raise InputError(f"{self._path} ends at byte {place:,} of {size:,}", "run the command again")
        buffer[: len(block)] = block
        return len(block)

    def _read(self, size: int) -> bytes:
        try:
            return bytes(self._file.read(size))
        except ValueError:  # the server answers a request for a part with all
            if self._path._protocol not in _HTTP:
                raise
        place = self._file.tell()
        self._file = self._path._whole()
        self._file.seek(place)
        return bytes(self._file.read(size))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


Source = Path | RemotePath
"""A file or folder, wherever it is."""


def source_at(name: str | os.PathLike[str]) -> Source:
    """The file or folder that a name is, or that a URI means.

    Raises:
        InputError: A URI has a protocol that fsspec does not know, or one whose package is missing.
    """
    return RemotePath(os.fspath(name)) if is_remote(name) else local_path(name)


def _cause(error: BaseException) -> BaseException:
    """What a client met, where fsspec calls everything it meets on the way a missing file."""
    inner = error.__cause__
    if inner is not None and (isinstance(inner, OSError) or type(inner).__module__.startswith("aiohttp")):
        return _cause(inner)
    return error


def _is_absent(error: BaseException) -> bool:
    cause = _cause(error)
    return isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) in _ABSENT


def _check_protocol(protocol: str, name: str) -> None:
    """Refuse a protocol that is unknown, or whose package is missing."""
    from fsspec.registry import get_filesystem_class, known_implementations

    try:
        get_filesystem_class(protocol)
    except ValueError:
        hint = "use s3://, gs://, https:// or file://"
        raise InputError(f"{name}: unknown protocol {protocol}://", hint) from None
    except ImportError as error:
        known = known_implementations[protocol]
        package = known["class"].partition(".")[0]
        if package == "fsspec":  # which says itself what it needs
            raise InputError(f"{name} cannot be read: {known.get('err', error)}") from None
        raise InputError(f"{name} needs {package}", f"pip install {package}") from None


def _web_options() -> dict[str, Any]:
    """How web servers are asked: by the environment's proxies, for parts of files as they are, not packed."""
    from aiohttp import ClientTimeout

    # aiohttp's own limit, five minutes in all, would end the copy of a large file.
    waits = ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_READ)
    asked = {"timeout": waits, "trust_env": True, "headers": {"Accept-Encoding": "identity"}}
    return {"client_kwargs": asked, "simple_links": False}
