"""Lines of text from plain, gzip and xz files: decoded, numbered, and broken at line feeds only."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from sentemb.errors import InputError

_COMPRESSIONS = (".gz", ".xz")
_BLOCK = 1 << 20


def is_packed(path: Path) -> bool:
    """Tell by its name whether a file is compressed."""
    return path.suffix.lower() in _COMPRESSIONS


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressing it when its name ends in `.gz` or `.xz`."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise InputError(f"no such file: {path}")
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix.lower() == ".xz":
        return cast(BinaryIO, lzma.open(path, "rb"))
    return path.open("rb")


def read_blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Read a possibly compressed file block by block."""
    try:
        while block := file.read(_BLOCK):
            yield block
    except EOFError:
        raise InputError(f"{name} is cut off: its compressed data ends too early", "copy it again") from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{name} is damaged or not compressed as its name says: {error}") from None


def read_lines(path: Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Read a text file line by line.

    Only `\n` ends a line, so that the line numbers are those of an editor and of `wc -l`: `str.splitlines`
    would also break at NEL (U+0085), form feeds and six other characters that occur inside sentences. One
    `\r` before the `\n` is dropped, and so is a byte order mark.
    """
    name = str(path)
    with open_bytes(path) as file:
        yield from decode_lines(read_blocks(file, name), name, encoding=encoding)


def decode_lines(blocks: Iterator[bytes], name: str, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Turn blocks of bytes into numbered lines; see `read_lines`."""
    number = 0
    unfinished: list[str] = []  # a list, because one line may span many blocks
    for text in _decode_blocks(blocks, name, encoding):
        *complete, rest = text.split("\n")
        if complete:
            complete[0] = "".join([*unfinished, complete[0]])
            unfinished = []
        for line in complete:
            number += 1
            yield number, line.removesuffix("\r")
        unfinished.append(rest)
    last = "".join(unfinished)
    if last:
        yield number + 1, last.removesuffix("\r")


def _decode_blocks(blocks: Iterator[bytes], name: str, encoding: str) -> Iterator[str]:
    decoder = _decoder(encoding)
    position, lines, first = 0, 0, True
    for block in _with_end(blocks):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = 1 + lines + error.object[: error.start].count(b"\n")
            raise InputError(
                f"{name}, line {line}: byte {position - pending + error.start} is not {encoding} "
                f"(0x{error.object[error.start]:02x})",
                "name the file's encoding, or convert it to UTF-8",
            ) from None
        if "\0" in text:
            line = 1 + lines + text[: text.index("\0")].count("\n")
            raise InputError(f"{name}, line {line}: a NUL byte, so this is no {encoding} text")
        position += len(block)
        lines += text.count("\n")
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        yield text


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        # Refuses what codecs also registers but is no text encoding, such as zlib and rot13.
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        return codecs.getincrementaldecoder(encoding)()
    except (LookupError, ValueError):
        raise InputError(f"unknown encoding {encoding!r}", "use a name such as utf-8 or latin-1") from None


def _with_end(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks and an empty one, at which the decoder must hold no half character."""
    yield from blocks
    yield b""
