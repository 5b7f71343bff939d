"""Files that are either the old or the new one, regardless of when a process is killed."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError

from sentemb._uris import is_remote, local_path, refuse_uri, without_secrets
from sentemb.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_REPLACED = ".replaced"


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Fill a file next to `path` and give it that name only when it is complete and on the disk."""
    path = without_dots(path)
    with _partial(path, _new_empty_file) as partial:
        with partial.open("wb") as file:
            yield file
        settle(partial, path)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name what was written in errors of a full disk, which those of Python and of Rust do not."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        told = re.search(r"os error (\d+)", str(error))
        number = error.errno if isinstance(error, OSError) and error.errno else told and int(told[1])
        if number is None or getattr(error, "filename", None) is not None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def settle(partial: Path, path: Path) -> None:
    """Give a complete file its name, after its bytes are on the disk: a power cut leaves no empty name."""
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    # mkstemp makes files for the owner alone; a result is as readable as any other file.
    partial.chmod(0o666 & ~_umask())
    partial.replace(path)
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part."""
    with new_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; NaN and infinities are refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def refuse_unusable_output(
    output: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str] | None],
    *,
    cache: str | os.PathLike[str] | None = None,
) -> None:
    """Refuse an output before the work: one that would replace what is read or kept, or cannot be written.

    An output replaces an input where it is the input, holds it, or is a file in it. The same holds for the
    cache folder, which may not exist yet. Inputs that are not paths, such as names of data sets, are ignored.
    """
    refuse_uri(output)
    target = Path(output).resolve()
    if cache is not None:
        refuse_uri(cache)
        if target in (Path(cache).resolve(), *Path(cache).resolve().parents):
            why = f"the output {output} would replace the cache folder {cache}"
            raise InputError(why, "choose another output")
    for source in inputs:
        if source is None or not local_path(source).exists():
            continue
        place = local_path(source).resolve()
        within = target.is_file() and place in target.parents
        if within or target in (place, *place.parents) or (target.exists() and target.samefile(place)):
            raise InputError(f"the output {output} would replace the input {source}", "choose another output")
    _try_file(Path(output) if target.is_dir() else Path(output).parent, output)


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that takes no files or cannot be made, before time is spent on what goes into it."""
    refuse_uri(folder)
    _try_file(Path(folder), folder)


def _try_file(folder: Path, output: str | os.PathLike[str]) -> None:
    """Make a file in a folder, or in the one that it would be made in, and remove it."""
    path = place = folder.absolute()
    try:
        place = next(there for there in (path, *path.parents) if there.exists())
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        why = f"creating a file in {place} failed ({error.strerror})"
        raise InputError(f"cannot write {output}: {why}", "choose another output") from None


def check_new_folder(path: Path, *, overwrite: bool = False) -> None:
    """Refuse before the work what `new_folder` would refuse or fail on after it."""
    if not overwrite:
        _refuse_existing_folder(path)
    _try_file(path.parent, path)


def refuse_existing(output: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse an output that is a folder, or that would replace a file which is not empty."""
    path = Path(output)
    if path.is_dir():
        raise InputError(f"the output {output} is a folder", "name a file")
    if not overwrite and path.is_file() and path.stat().st_size:
        raise InputError(f"{output} already exists", "choose another output, or add --overwrite")


def shareable(path: str | os.PathLike[str]) -> str:
    """Return a path as strangers may read it, relative or without its folders; a URI without secrets."""
    if is_remote(path):
        return without_secrets(os.fspath(path))
    given = local_path(path)
    if not given.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(given.relative_to(here)) if given.is_relative_to(here) else given.name or "/"


def without_dots(path: Path) -> Path:
    """Return the same place without `..`: a folder would be made on the way to `new/..`."""
    return Path(os.path.realpath(path)) if ".." in path.parts else path


def sha256_of(path: Path) -> str:
    """Return the checksum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_existing_folder(path: Path) -> None:
    """Refuse an output folder that is a file, or that holds something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} already exists", "choose another output, or remove it")


@contextlib.contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Fill a folder next to `path` and give it that name only when everything in it is complete.

    An existing folder that is not empty is refused, or replaced at the end.
    """
    path = Path(os.path.realpath(path)) if overwrite else without_dots(path)  # of a link what it leads to
    if not overwrite or path.is_file():
        _refuse_existing_folder(path)
    _restore(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:  # what writes tokenizers takes no other names
        raise InputError(f"the name of the output {path} is not UTF-8", "choose another name") from None
    with _partial(path, tempfile.mkdtemp) as partial:
        yield partial
        partial.chmod(0o777 & ~_umask())
        share_files(partial)
        if overwrite and path.exists():
            _exchange(partial, path)
        else:
            partial.replace(path)
    sync_folder(path.parent)


def _exchange(partial: Path, path: Path) -> None:
    """Replace a folder by another."""
    old = partial.with_suffix(_REPLACED)
    path.replace(old)
    try:
        partial.replace(path)
    except BaseException:
        old.replace(path)
        raise
    _remove(old)


def _restore(path: Path) -> None:
    """Give the old folder its name again after a kill within `_exchange`, or remove it."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.*{_REPLACED}"):
        if path.exists():
            _remove(old)
        else:
            old.replace(path)


@contextlib.contextmanager
def _partial(path: Path, make: Callable[..., str]) -> Iterator[Path]:
    """Yield a name next to `path` for what is not complete yet; a failure removes it.

    After a kill, the next use removes it: the lock on it lasts as long as its writer lives.
    """
    refuse_uri(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    place = {"prefix": f".{path.name}.", "suffix": ".partial", "dir": path.parent}
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(OSError), locked(left, wait=False):
            _remove(left)
    with contextlib.ExitStack() as lock:
        partial = None
        while partial is None or not partial.exists():  # one that was taken for dead before it was locked
            try:
                partial = Path(make(**place))
            except OSError as error:  # it names what nobody has asked for
                raise OSError(error.errno, error.strerror, str(path)) from error
            with contextlib.suppress(FileNotFoundError):
                lock.enter_context(locked(partial))
        try:
            with writing(path):
                yield partial
        except BaseException:
            _remove(partial)
            raise


def _new_empty_file(**place: Any) -> str:
    descriptor, name = tempfile.mkstemp(**place)
    os.close(descriptor)
    return str(name)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a file or folder, False where the system cannot; without `wait`, raise BlockingIOError."""
    if fcntl is None:
        if not wait:
            raise BlockingIOError
        yield False
        return
    # NFS locks what is open for writing alone, and so no folder.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    is_alone = True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if not wait or error.errno != errno.EBADF:
                raise
            is_alone = False
        yield is_alone
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def share_files(folder: Path) -> None:
    """Make every file below a folder as readable as any new file.

    safetensors 0.8 creates its files for the owner alone, so that nobody else could load a saved model.
    """
    mode = 0o666 & ~_umask()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def sync_folder(path: Path) -> None:
    """Make a rename inside `path` survive a power cut, where the system offers it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def held(lock: Path, busy: str, hint: str, *, reentrant: bool = False) -> Iterator[None]:
    """Hold a lock, or raise InputError if another process has it. A thread may hold a reentrant one twice."""
    from filelock import FileLock, Timeout

    lock.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(lock, timeout=0, is_singleton=reentrant))
        except Timeout:
            raise InputError(busy, hint) from None
        yield
