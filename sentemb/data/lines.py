"""Lines of text from plain, gzip and xz files: decoded, numbered, and broken at line feeds only."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from sentemb.data.remote import Source
from sentemb.errors import InputError
from sentemb.limits import limit, refuse_above

_COMPRESSIONS = (".gz", ".xz")


def is_packed(path: Source) -> bool:
    """Tell by its name whether a file is compressed."""
    return path.suffix.lower() in _COMPRESSIONS


def open_bytes(path: Source) -> BinaryIO:
    """Open a file for reading bytes, decompressing it when its name ends in `.gz` or `.xz`."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise InputError(f"no such file: {path}")
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(_openable(path), "rb"))
    if path.suffix.lower() == ".xz":
        return cast(BinaryIO, lzma.open(_openable(path), "rb"))
    return path.open("rb")


def _openable(path: Source) -> Path | BinaryIO:
    """What decompressors take."""
    return path if isinstance(path, Path) else path.open("rb")


def read_lines(path: Source, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Read a text file line by line, with line numbers from 1.

    Only `\n` ends a line, so that the line numbers are those of an editor and of `wc -l`: `str.splitlines`
    would also break at NEL (U+0085), form feeds and six other characters that occur inside sentences. One
    `\r` before the `\n` is dropped, and so is a byte order mark.
    """
    with open_bytes(path) as file:
        yield from decode_lines(file, str(path), encoding=encoding)


def decode_lines(file: IO[bytes], name: str, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Turn an open file into numbered lines; see `read_lines`."""
    if _is_wide(encoding):
        file, encoding = _transcoded(file, name, encoding), "utf-8"
    position = 0
    for number, raw in enumerate(_raw_lines(file, name), start=1):
        try:
            line = raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}: byte {position + error.start} is not {encoding} "
                f"(0x{raw[error.start]:02x})",
                "convert the file to UTF-8",
            ) from None
        if "\0" in line:
            raise InputError(
                f"{name}, line {number}: the file contains a NUL byte, so it is not {encoding} text"
            )
        position += len(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        yield number, line.removesuffix("\n").removesuffix("\r")


def read_blocks(file: IO[bytes], name: str, size: int = 1 << 20) -> Iterator[bytes]:
    """Read a possibly compressed file block by block."""
    with _explained(name):
        while block := file.read(size):
            yield block


def _raw_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    with _explained(name):
        number, longest = 0, (limit("line") << 20) + 1
        while raw := file.readline(longest):
            number += 1
            if len(raw) == longest:
                refuse_above(
                    "line", len(raw) / (1 << 20), f"{name}, line {number}", "split it into several lines"
                )
            yield raw


def _is_wide(encoding: str) -> bool:
    """Tell whether a line feed takes several bytes, as in UTF-16; refuse what is no text encoding."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # codecs also registers zlib and rot13
        return "\0" in "\n".encode(encoding).decode("latin-1")
    except (LookupError, ValueError):
        raise InputError(f"unknown encoding {encoding!r}", "use a name such as utf-8 or latin-1") from None


def _transcoded(file: IO[bytes], name: str, encoding: str) -> IO[bytes]:
    """The file in UTF-8, held in memory: files of wide encodings are rare and small."""
    content = b"".join(read_blocks(file, name))
    try:
        return io.BytesIO(content.decode(encoding).encode())
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: byte {error.start} is not {encoding}", "convert the file to UTF-8"
        ) from None


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn errors of damaged compressed files into the user's."""
    try:
        yield
    except EOFError:
        raise InputError(
            f"{name} is truncated: its compressed data ends too early", "copy it again"
        ) from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{name} is damaged, or not compressed as its extension says: {error}") from None
