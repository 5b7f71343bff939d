"""One command in a process of its own, within a limit of computing and memory, and what it may have done."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from urllib.request import urlopen

from tests import processes

SECONDS = 120  # of a processor, so that it does not matter who else computes
_HANG = 3600  # of the clock, for what waits and computes nothing
_MEMORY = 3 << 30  # beyond what the imports have reserved
_BAD_NUMBER = re.compile(r"(?<![\w./'\"-])(nan|inf)(?![\w./'\"-])")
_ERROR = "sentemb: error: "
_TAIL = 1500
LOGS = (".sqlite-shm", ".sqlite-wal")
"""SQLite's logs of a database, which it removes when the interpreter ends, as a forked process does not."""


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int | None
    printed: str

    def fault(self, culprits: list[str]) -> str | None:
        """Return the fault of the outcome, if any; the error line must name one of the culprits."""
        lines = self.printed.strip().splitlines() or [""]
        if self.code in (None, -signal.SIGXCPU):
            return f"hangs, or computes for {SECONDS} s"
        if "Traceback (most recent call last)" in self.printed:
            return "traceback"
        if self.code == 0:
            return "a number that is NaN or infinite" if self._has_bad_number(culprits) else None
        if self.code != 2:
            return f"exit code {self.code}"
        if not lines[-1].startswith(_ERROR):
            return "exit code 2 without a line that says why"
        if sum(line.startswith(_ERROR) for line in lines) != 1:
            return "more than one error"
        if not self.diverged() and not any(
            _shown(one).lower() in lines[-1].lower() for part in culprits for one in _parts(part)
        ):
            return f"none of {culprits} is named"
        return None

    def _has_bad_number(self, given: list[str]) -> bool:
        return not any(map(_BAD_NUMBER.search, given)) and bool(_BAD_NUMBER.search(self.printed))

    def diverged(self) -> bool:
        """Return True if training diverged or ran out of memory, which leaves a run to inspect."""
        found = "loss is not finite at step|gives NaN or infinity|there is not enough memory"
        return bool(re.search(found, self.printed))

    def tail(self) -> str:
        """Return the end of the output."""
        return self.printed[-_TAIL:]


def _parts(culprit: str) -> list[str]:
    """Return the names an error may use for a culprit: list items, words of an option, the home folder."""
    values = re.split("[,=]", culprit) if re.search("[,=]", culprit) else []
    words = [*culprit.strip("-").split("-"), culprit.replace("_", " ")]
    home = [str(Path(culprit).expanduser())] if culprit == "~" or culprit.startswith("~/") else []
    return [culprit, *home, *filter(_shown, values), *(word for word in words if len(_shown(word)) > 1)]


def _shown(text: str) -> str:
    """Return the start of a text that no way of escaping changes."""
    return re.split(r"[^!-&(-\[\]-~\xa1-\xac\xae-\u024f]", text.strip())[0][:30]


def run(arguments: list[str], folder: Path) -> Outcome:
    """Run `sentemb ARGUMENTS` in a folder."""
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    process = processes.start(_limited, arguments, str(folder), log=log)
    stopped = arguments[0] == "serve" and _stop_serving(process, log)
    process.join(_HANG)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    if stopped and code == 128 + signal.SIGTERM:
        code = 0
    return Outcome(code, log.read_bytes().decode(errors="replace") if log.exists() else "")


def _stop_serving(process: BaseProcess, log: Path) -> bool:
    """Ask a server that is ready for its models, and tell it to stop; whether it was ever ready."""
    address = None
    while address is None and process.is_alive():
        process.join(0.05)
        address = re.search(rb"serving on (http://\S+)\n", log.read_bytes() if log.exists() else b"")
    if address is None:
        return False
    # Without a key the answer may be 401; a server that gives none is seen by how it ends.
    with contextlib.suppress(OSError), urlopen(f"{address[1].decode()}/v1/models"):
        pass
    process.terminate()
    return True


def _limited(arguments: list[str], folder: str) -> None:
    os.chdir(folder)
    os.environ.pop("SENTEMB_DATA", None)
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (reserved + _MEMORY, resource.RLIM_INFINITY))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    processes.command(arguments)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, folders as None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of all files below a folder, but for the logs of databases."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(LOGS))
    found = ((path, path.stat()) for path in files)
    return {str(path): (state.st_size, state.st_mtime_ns) for path, state in found}
