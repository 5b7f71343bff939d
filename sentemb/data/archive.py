"""Where the files of a data set lie: on disk, or inside a tar archive that is never unpacked."""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from sentemb.data.lines import decode_lines, read_lines
from sentemb.data.tables import Lines
from sentemb.errors import InputError
from sentemb.limits import refuse_above

# Untokenized text before SentEval's own layout before SimCSE's (sets at the root) before tokenized text.
ROOTS = (
    "senteval/downstream",
    "SentEval/data/downstream",
    "data/downstream",
    "downstream",
    "",
    "senteval_tok/downstream",
)
ARCHIVES = ("senteval.tar", "senteval.tar.gz", "senteval.tgz", "senteval.tar.xz")
_FOLDERS = {"STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC"}


@dataclass(frozen=True)
class Place:
    """Where a set was found.

    Attributes:
        path: The set's file or folder; or a `downstream` folder of SentEval, or an archive of one.
        folder: The set's folder in SentEval's layout; empty where `path` is the set's own.
        root: The `downstream` folder inside the archive, whose members are never unpacked; None on disk.
    """

    path: Path
    folder: str = ""
    root: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.root is None else f"{self.path}:{self.root}"

    def name_of(self, file: str) -> str:
        """What errors and locations call a file."""
        if self.root is None:
            return str(self.path / self.folder / file)
        return f"{self.path}:{PurePosixPath(self.root, self.folder, file)}"

    def lines(self, file: str, *, encoding: str = "utf-8") -> Lines:
        """The numbered lines of a file."""
        if self.root is None:
            return read_lines(self.path / self.folder / file, encoding=encoding)
        content = _contents(self.path, self.path.stat().st_mtime_ns).get(
            str(PurePosixPath(self.root, self.folder, file))
        )
        if content is None:
            raise InputError(f"no such file: {self.name_of(file)}")
        return decode_lines(io.BytesIO(content), self.name_of(file), encoding=encoding)

    def first_of(self, files: Iterable[str]) -> Path | None:
        """The first of some files that is on disk; a set that is one file has no other."""
        if self.path.is_file():
            return self.path if self.root is None else None
        return next((path for file in files if (path := self.path / self.folder / file).is_file()), None)


def find_senteval(data_dir: Path, folder: str) -> Place | None:
    """Find a set's folder in SentEval's layout, on disk or in an archive."""
    if data_dir.is_file():
        return _find_in_archive(data_dir, folder)
    for root in ROOTS:
        if (data_dir / root / folder).is_dir():
            return Place(data_dir / root, folder)
    for name in ARCHIVES:
        for archive in (data_dir / name, data_dir / "senteval" / name):
            if archive.is_file() and (place := _find_in_archive(archive, folder)):
                return place
    return None


def _find_in_archive(path: Path, folder: str) -> Place | None:
    names = _contents(path, path.stat().st_mtime_ns)
    for root in ROOTS:
        if any(PurePosixPath(name).is_relative_to(PurePosixPath(root, folder)) for name in names):
            return Place(path, folder, root)
    return None


@lru_cache(maxsize=1)
def _contents(path: Path, changed: int) -> dict[str, bytes]:
    """The files of the sets in an archive that the catalogue knows, some twenty megabytes, unpacked once.

    `changed` is the archive's time stamp, so that another archive under the same name is read again.
    """
    contents: dict[str, bytes] = {}
    held = 0
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isfile() or not _FOLDERS & set(member.name.split("/")):
                    continue
                held += member.size
                # A small archive may hold gigabytes of zeros.
                refuse_above("archive", held / (1 << 20), str(path), "unpack it")
                file = archive.extractfile(member)
                content = file.read() if file else b""
                if len(content) != member.size:
                    raise tarfile.ReadError(f"truncated in {member.name}")
                contents[member.name.removeprefix("./")] = content
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{path} is not a complete tar archive: {reason}", "copy the archive again"
        ) from None
    return contents
