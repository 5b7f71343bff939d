"""Bytes and lines of files, local or remote, compressed or not. Only a line feed ends a line."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, cast

from sentemb.data.remote import RemotePath, Source
from sentemb.errors import InputError
from sentemb.limits import limit, refuse_above

PACKED = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2", ".zst": "zstd"}
"""fsspec's names of compressions, by extension."""


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
    explained = path.explained() if isinstance(path, RemotePath) else contextlib.nullcontext()
    with explained, path.open("rb") as raw:
        if not is_packed(path):
            yield raw
            return
        try:
            with _decompress(path, raw) as file:
                yield file
        except (InputError, MemoryError):
            raise
        except EOFError:
            raise InputError(
                f"{path} is truncated: its compressed data ends too early", "copy it again"
            ) from None
        except Exception as error:
            if getattr(error, "errno", None):  # of the disk or the network
                raise
            raise InputError(f"{path} is damaged, or not compressed as its extension says: {error}") from None


def _decompress(path: Source, raw: IO[bytes]) -> IO[bytes]:
    from fsspec.compression import compr

    name = PACKED[PurePosixPath(path.name).suffix.lower()]
    if name not in compr:
        raise InputError(f"{path} needs zstandard", "pip install zstandard")
    return cast(IO[bytes], compr[name](raw, mode="rb"))


def read_lines(path: Source, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text file, numbered from 1 as in an editor and in `wc -l`.

    Only `\n` ends a line: `str.splitlines` would also break at NEL (U+0085), form feeds and six other
    characters that occur inside sentences. One `\r` before the `\n` and a byte order mark are removed.
    """
    position = 0
    is_wide = _is_wide(encoding)
    with open_bytes(path) as file:
        lines = _lines_of_wide(file, path, encoding) if is_wide else _raw_lines(file, path)
        for number, raw in enumerate(lines, start=1):
            try:
                line = raw.decode("utf-8" if is_wide else encoding)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}, line {number}: byte {position + error.start} is not {encoding} "
                    f"(0x{raw[error.start]:02x})",
                    "convert the file to UTF-8",
                ) from None
            if "\0" in line:
                raise InputError(
                    f"{path}, line {number}: the file contains a NUL byte, so it is not {encoding} text"
                )
            position += len(raw)
            if number == 1:
                line = line.removeprefix("\ufeff")
            yield number, line.removesuffix("\n").removesuffix("\r")


def _raw_lines(file: IO[bytes], path: Source) -> Iterator[bytes]:
    number, longest = 0, (limit("line") << 20) + 1
    while raw := file.readline(longest):
        number += 1
        if len(raw) == longest:
            place = f"{path}, line {number}"
            refuse_above("line", len(raw) / (1 << 20), place, "split it into several lines")
        yield raw
    if isinstance(path, RemotePath):
        path.check_complete(file)


def _is_wide(encoding: str) -> bool:
    """Tell whether a line feed takes several bytes, as in UTF-16; raise InputError for an unknown name."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # codecs also registers zlib and rot13
        return "\0" in "\n".encode(encoding).decode("latin-1")
    except (LookupError, ValueError):
        raise InputError(f"unknown encoding {encoding!r}", "use a name such as utf-8 or latin-1") from None


def _lines_of_wide(file: IO[bytes], path: Source, encoding: str) -> Iterator[bytes]:
    """Yield the lines of a file in UTF-16 or UTF-32 as UTF-8."""
    try:
        yield from (line.encode() for line in io.TextIOWrapper(file, encoding, newline="\n"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not {encoding}", "convert the file to UTF-8"
        ) from None
