"""What judging an encoder completely asks of each suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sentemb._tables import Table
from sentemb.data.locate import MissingDataError
from sentemb.encoding import TextEncoder
from sentemb.encoding.function import FunctionEncoder
from sentemb.errors import InputError

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What suites are read and judged with.

    Attributes:
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        preset: Of the classifiers of transfer tasks.
        check_rows: Refuse a set whose number of rows differs from the catalogue's.
        command: The command line, for records.
    """

    data_dir: str | Path | None = None
    preset: str = "simcse-fast"
    check_rows: bool = True
    command: Sequence[str] | None = None


class Suite(Protocol):
    """A suite whose data are read: an encoder gets one record of it, which may grow part by part."""

    @property
    def name(self) -> str:
        """What tables and messages call it."""
        ...

    def find(self, folder: Path, encoder: TextEncoder, *, overwrite: bool) -> Any | None:
        """What a folder already holds of the encoder."""
        ...

    def texts(self, found: Any | None) -> Iterable[str]:
        """The texts that are still to be encoded, repeats allowed; none where the record is complete."""
        ...

    def judge(self, encoder: TextEncoder, found: Any | None) -> Iterator[tuple[Any, str]]:
        """Judge what is not judged yet."""
        ...

    def write(self, record: Any, folder: Path) -> Path:
        """Write a record, in the place of the one that `find` gave or agreed to replace."""
        ...

    def tables(self, records: Sequence[Any]) -> list[Table]:
        """Records of several encoders side by side."""
        ...


@dataclass(frozen=True)
class Loaded:
    """Suites whose data are read.

    Attributes:
        suites: Those that there are data for.
        missing: Why each other set is left out.
    """

    suites: tuple[Suite, ...]
    missing: tuple[MissingDataError, ...] = ()


@dataclass
class Reading:
    """Reads sets one by one, and notes those that are not there.

    Attributes:
        missing: The errors of those.
    """

    missing: list[MissingDataError] = field(default_factory=list)

    def read(self, names: Iterable[str], load: Callable[[str], Value]) -> dict[str, Value]:
        """Read some sets."""
        found = {}
        for name in names:
            try:
                found[name] = load(name)
            except MissingDataError as error:
                self.missing.append(error)
        return found


def check_same_encoder(
    path: Path, encoder: TextEncoder, fingerprint: str, described: Mapping[str, Any], *, overwrite: bool
) -> bool:
    """Whether a record is of this very encoder, and may be gone on with."""
    if fingerprint != encoder.fingerprint:
        raise InputError(
            f"{path} is the record of another model (fingerprint {fingerprint[:12]}, not "
            f"{encoder.fingerprint[:12]})",
            "choose another output folder",
        )
    if overwrite:
        return False
    if isinstance(encoder, FunctionEncoder) or _precision(described) != _precision(encoder.describe()):
        raise taken(path)
    return True


def taken(path: Path) -> InputError:
    """The error for a record that this run would not make in the same way."""
    return InputError(
        f"{path} is already there, and was made of other data or with other settings",
        "add --overwrite (overwrite=True) to replace it, or choose another output folder",
    )


def _precision(described: Mapping[str, Any]) -> Any:
    # What was asked for: under `reduced` each process finds out anew which kernel is faster.
    return described.get("precision_asked", described.get("precision"))
