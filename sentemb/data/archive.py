"""A SentEval `downstream` folder, on disk or inside a tar archive, seen the same way."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sentemb.errors import InputError

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
_LARGEST = 64 << 20  # ten times the largest file that any set has


@dataclass(frozen=True)
class Tree:
    """Files below one folder, or below one folder of an archive.

    Members of an archive are read where they are and never unpacked, so their names cannot reach other files.

    Attributes:
        place: The folder, or the archive.
        prefix: The folder inside the archive, `""` for its root; None for a folder on disk.
    """

    place: Path
    prefix: str | None = None

    def path_of(self, name: str) -> str:
        """What errors and records call a file."""
        if self.prefix is None:
            return str(self.place / name)
        return f"{self.place}:{_join(self.prefix, name)}"

    def read(self, name: str) -> bytes:
        """Read one file whole; the largest set's is under a megabyte."""
        if self.prefix is None:
            try:
                return (self.place / name).read_bytes()
            except (FileNotFoundError, IsADirectoryError):
                raise InputError(f"no such file: {self.path_of(name)}") from None
        contents = _contents(self.place, self.place.stat().st_mtime_ns)
        content = contents.get(_join(self.prefix, name))
        if content is None:
            raise InputError(f"no such file: {self.path_of(name)}")
        return content


def find_tree(data_dir: Path, folder: str) -> Tree | None:
    """Find the tree that holds a set's folder."""
    if data_dir.is_file():
        return _find_in_archive(data_dir, folder)
    for root in ROOTS:
        if (data_dir / root / folder).is_dir():
            return Tree(data_dir / root)
    for name in ARCHIVES:
        for archive in (data_dir / name, data_dir / "senteval" / name):
            if archive.is_file() and (tree := _find_in_archive(archive, folder)):
                return tree
    return None


def _find_in_archive(path: Path, folder: str) -> Tree | None:
    names = _contents(path, path.stat().st_mtime_ns)
    for root in ROOTS:
        start = _join(root, folder) + "/"
        if any(name.startswith(start) for name in names):
            return Tree(path, root)
    return None


@lru_cache(maxsize=1)
def _contents(path: Path, changed: int) -> dict[str, bytes]:
    """The files of the sets in an archive that the catalogue knows, some twenty megabytes, unpacked once.

    `changed` is the archive's time stamp, so that another archive under the same name is read anew.
    """
    try:
        with tarfile.open(path) as archive:
            return {
                member.name.removeprefix("./"): _content(archive, member)
                for member in archive
                if member.isfile() and _FOLDERS & set(member.name.split("/")) and member.size <= _LARGEST
            }
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is no whole tar archive: {reason}", "copy the archive again") from None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    content = file.read() if file else b""
    if len(content) != member.size:
        raise tarfile.ReadError(f"cut off in {member.name}")
    return content


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if root else name
