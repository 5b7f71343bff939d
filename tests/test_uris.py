"""URIs: what is one, which parts are hidden in messages, and that none is an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb._files import refuse_unusable_output, shareable, write_text
from sentemb._uris import is_remote, is_uri, local_path, refuse_uri, without_listed_secrets, without_secrets
from sentemb.errors import InputError
from sentemb.training.values import to_toml


@pytest.mark.parametrize(
    "name", ["docs.csv", "user/name", "stsb", "C:\\docs.csv", "c://docs.csv", "lancedb:s3://b/d"]
)
def test_what_is_no_uri_stays_as_it_is(name: str) -> None:
    assert not is_uri(name)
    assert not is_remote(name)
    assert local_path(name) == Path(name)
    assert without_secrets(name) == shareable(name) == name


@pytest.mark.parametrize("scheme", ["file://", "FILE://localhost", "local://"])
def test_a_file_uri_is_a_path(scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "two words.txt"
    assert local_path(path.as_uri().replace("file://", scheme)) == path
    assert not is_remote(path.as_uri())
    assert shareable(path.as_uri()) == "two words.txt"


def test_a_file_uri_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"file://docs/a\.txt is not a file on this machine; write file:///"):
        local_path("file://docs/a.txt")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/a/b.jsonl", "s3://bucket/a/b.jsonl"),
        ("https://me:p@ss?@host:8080/a@b.csv?token=1&x=a/b", "https://host:8080/a@b.csv"),
        ("https://host?token=1", "https://host"),
    ],
)
def test_a_uri_loses_its_secrets(uri: str, shown: str) -> None:
    assert without_secrets(uri) == shareable(uri) == shown
    assert without_listed_secrets(f"--sets=stsb,{uri},{uri}") == f"--sets=stsb,{shown},{shown}"
    assert to_toml({"data": uri}) == f'data = "{shown}"\n'


def test_an_output_over_a_file_that_a_uri_names_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "mine.csv"
    source.write_text("text\na\n")
    with pytest.raises(InputError, match="would replace the input file://"):
        refuse_unusable_output(source, [source.as_uri()])
    refuse_unusable_output(tmp_path / "other.csv", [source.as_uri(), "s3://bucket/mine.csv"])


@pytest.mark.parametrize(
    "output", ["s3://me:secret@b/x", Path("s3://me:secret@b/x"), "file:///x", "lancedb:x", Path("lancedb:/x")]
)
def test_no_output_is_a_uri(output: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="outputs must be local paths") as refused:
        refuse_uri(output)
    assert "secret" not in str(refused.value)
    with pytest.raises(InputError, match="outputs must be local paths"):
        write_text(Path(output), "")
    assert not [*tmp_path.iterdir()]


def test_drives_of_windows_are_outputs() -> None:
    refuse_uri("C:\\folder")
    refuse_uri("c:/folder")
