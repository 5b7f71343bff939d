"""Files that are either the old or the new one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sentemb._files import (
    check_writable,
    locked,
    new_file,
    new_folder,
    read_json,
    refuse_unusable_output,
    write_bytes,
    write_json,
    write_text,
)
from sentemb.errors import InputError


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_bytes(tmp_path / "new" / "folder" / "bytes", b"\x00\r\n\xff")
    write_text(tmp_path / "text", "één\r\nzwei\n")
    write_json(tmp_path / "json", {"word": "één", "numbers": [1, 0.5]})
    assert (tmp_path / "new" / "folder" / "bytes").read_bytes() == b"\x00\r\n\xff"
    assert (tmp_path / "text").read_bytes() == "één\r\nzwei\n".encode()
    assert read_json(tmp_path / "json") == {"word": "één", "numbers": [1, 0.5]}
    (tmp_path / "plain").touch()
    assert (tmp_path / "text").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failure_half_way_leaves_the_old_state(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(KeyboardInterrupt), new_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == ([] if old is None else [old])


def test_the_old_content_stays_until_the_new_is_complete_and_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen: list[bytes] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(path.read_bytes())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_bytes(path, b"new")
    assert seen == [b"old", b"new"]  # the file before its rename, its folder after


def test_threads_that_write_one_file_leave_one_of_their_contents_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([number]) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(write_bytes, path), contents * 10))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_over_an_input_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "folder" / "mine.csv"
    source.parent.mkdir()
    source.write_text("text\na\n")
    linked = tmp_path / "linked.csv"
    linked.hardlink_to(source)
    for output in (source, source.parent / ".." / "folder" / "mine.csv", source.parent, linked):
        with pytest.raises(
            InputError, match=r"the output .* would replace the input .*mine\.csv; choose another"
        ):
            refuse_unusable_output(output, [None, "stsb", source])
    refuse_unusable_output(source.parent / "other.csv", [source, "stsb"])


@pytest.mark.parametrize("output", ["mine.csv/deeper/new", "/proc/new/deeper"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, output: str) -> None:
    if output.startswith("/proc") and not Path("/proc").is_dir():
        pytest.skip("this system has no /proc")
    (tmp_path / "mine.csv").write_text("text\na\n")
    refused = pytest.raises(
        InputError, match=r"cannot write .*: creating a file in .*; choose another output"
    )
    with refused:
        refuse_unusable_output(tmp_path / output, [])
    with refused:
        check_writable(tmp_path / output)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"table\.csv"), new_file(tmp_path / "table.csv"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from sentemb._files import new_file, new_folder
path = Path(sys.argv[1])
with new_file(path / "file"), new_folder(path / "folder") as folder:
    (folder / "half").write_text("")
    print(len(list(path.iterdir())), flush=True)
    sys.stdin.readline()
"""


def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_of_a_living_one(tmp_path: Path) -> None:
    def write_both() -> None:
        write_text(tmp_path / "file", "new")
        with new_folder(tmp_path / "folder"):
            pass

    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "2\n"
        write_both()
        assert len(list(tmp_path.iterdir())) == 4
        other.kill()
    write_both()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


def test_a_way_through_a_folder_that_is_not_there_makes_none(tmp_path: Path) -> None:
    write_text(tmp_path / "absent" / ".." / "file", "text")
    with new_folder(tmp_path / "absent" / ".." / "folder"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder that nobody can write to")
def test_an_error_names_what_was_asked_for() -> None:
    for write in (new_file, new_folder):
        with pytest.raises(OSError) as caught, write(Path("/proc/x")):
            pass
        assert caught.value.filename == "/proc/x"


def test_a_folder_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not UTF-8"), new_folder(tmp_path / "out\udc80"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_locks_no_folder_and_nothing_open_for_reading_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    flock, locks = fcntl.flock, []

    def of_nfs(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, operation)
        locks.append(descriptor)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    with new_file(tmp_path / "file") as file:
        file.write(b"new")
    with new_folder(tmp_path / "folder") as folder:
        (folder / "file").write_bytes(b"new")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "folder" / "file").read_bytes() == b"new"
    with locked(tmp_path) as alone:
        assert not alone
    assert len(locks) == 1 and sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def make_folder(path: Path, content: str) -> Path:
    path.mkdir(exist_ok=True)
    (path / "model").write_text(content)
    return path


def test_a_folder_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "mine", "old")
    with new_folder(path, overwrite=True) as partial:
        (partial / "model").write_text("new")
        assert (path / "model").read_text() == "old"
    assert (path / "model").read_text() == "new"
    with pytest.raises(ValueError, match="stop"), new_folder(path, overwrite=True):
        raise ValueError("stop")
    assert (path / "model").read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_a_kill_left_without_its_name_comes_back(tmp_path: Path) -> None:
    """Killed between the two renames of an exchange."""
    make_folder(tmp_path / ".mine.abc.replaced", "old")
    make_folder(tmp_path / ".mine.abc.partial", "new")
    with pytest.raises(ValueError, match="stop"), new_folder(tmp_path / "mine", overwrite=True):
        raise ValueError("stop")
    assert (tmp_path / "mine" / "model").read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_exchanged_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_folder(tmp_path / "mine", "old")
    real = Path.replace

    def replace(source: Path, target: Path) -> Path:
        if source.suffix == ".partial":
            raise OSError(5, "Input/output error")
        return real(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="Input/output"), new_folder(path, overwrite=True) as partial:
        (partial / "model").write_text("new")
    assert (path / "model").read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_a_link_leads_to_the_new_folder_and_a_file_is_not_replaced(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "mine", "old")
    (tmp_path / "link").symlink_to(path)
    with new_folder(tmp_path / "link", overwrite=True) as partial:
        (partial / "model").write_text("new")
    assert (tmp_path / "link").is_symlink() and (path / "model").read_text() == "new"
    with pytest.raises(InputError, match="already exists"), new_folder(path / "model", overwrite=True):
        pass
