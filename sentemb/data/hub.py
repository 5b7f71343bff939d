"""Data sets on the hub, or on whatever `HF_ENDPOINT` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from sentemb.data.files import Row, require_columns
from sentemb.errors import InputError

_COMMIT_LENGTH = 40
_OR_LOCAL = "or name a folder that contains the data (--data-dir, SENTEMB_DATA)"


def download(
    hub_id: str, filename: str, *, revision: str | None, needed_for: str, local_dir: Path | None = None
) -> Path:
    """Download one file of a data set, or find it in the hub's cache."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    if local_dir is None and revision is not None and len(revision) == _COMMIT_LENGTH:
        # A commit never changes, so what the cache has needs no network.
        cached = try_to_load_from_cache(hub_id, filename, repo_type="dataset", revision=revision)
        if isinstance(cached, str):
            return Path(cached)
    commit = resolve_commit(hub_id, revision=revision, needed_for=needed_for)
    try:
        path = hf_hub_download(hub_id, filename, repo_type="dataset", revision=commit, local_dir=local_dir)
    except Exception as error:
        raise _explain(error, hub_id, revision, needed_for) from error
    return Path(path)


def resolve_commit(hub_id: str, *, revision: str | None, needed_for: str) -> str:
    """Ask the hub which commit a revision is now: one request, so that a dead network is noticed at once."""
    try:
        return _commit(hub_id, revision)
    except Exception as error:
        raise _explain(error, hub_id, revision, needed_for) from error


@cache
def _commit(hub_id: str, revision: str | None) -> str:
    """Asked once a process, so that a run reads and records the same commit from beginning to end."""
    from huggingface_hub import HfApi

    return str(HfApi().dataset_info(hub_id, revision=revision, timeout=10.0).sha)


def stream(
    hub_id: str,
    *,
    revision: str | None,
    columns: Sequence[str] | None,
    name: str,
    config: str | None = None,
    split: str | None = None,
) -> Iterator[Row]:
    """Stream the rows of a data set on the hub, called by a name, without downloading it first."""
    from datasets import load_dataset

    commit = resolve_commit(hub_id, revision=revision, needed_for=hub_id)
    try:
        splits = load_dataset(hub_id, config, revision=commit, streaming=True)
        names = list(splits)
        wanted = split or ("train" if "train" in names or len(names) != 1 else names[0])
        if wanted not in names:
            message = f"{hub_id} does not have a split {wanted!r}, only {', '.join(names)}"
            raise InputError(message, "download the split that you need, and pass its file")
        for number, values in enumerate(splits[wanted], start=1):
            if number == 1:
                require_columns(columns, list(values), hub_id)
            yield Row(f"{name}:{number}", {column: values[column] for column in columns or values})
    except InputError:
        raise
    except Exception as error:
        raise _explain(error, hub_id, revision, hub_id) from error


def _explain(error: Exception, hub_id: str, revision: str | None, needed_for: str) -> InputError:
    """Turn an error of the hub's clients into InputError; raise any other error again."""
    from huggingface_hub import constants, errors

    place, server = f"{hub_id} at {revision}" if revision else hub_id, constants.ENDPOINT
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)  # type: ignore[arg-type]

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    offline = constants.HF_HUB_OFFLINE or is_a(errors.OfflineModeIsEnabled)
    no_set = is_a(errors.RepositoryNotFoundError) or type(error).__name__ == "DatasetNotFoundError"
    no_file = is_a(errors.EntryNotFoundError) and not is_a(errors.LocalEntryNotFoundError)
    # No data files, several configurations, a loading script, in datasets' own words.
    unreadable = type(error).__module__.startswith("datasets") or type(error) in (RuntimeError, ValueError)
    no_network = is_a(OSError) or any(type(cause).__module__.startswith("httpx") for cause in causes)
    needs, restricted = f"{needed_for} needs {place}", f"access to {hub_id} is restricted"
    no_revision, bad_id = f"{hub_id} does not have a revision {revision}", f"{hub_id!r} is not a hub id"
    broken = f"{place} cannot be read: {str(error).partition(chr(10))[0]}"
    unreachable = f"{needs}, but {server} cannot be reached ({type(causes[-1]).__name__})"
    for applies, message, hint in (
        (offline, f"{needs} from the hub, but HF_HUB_OFFLINE is set", f"unset HF_HUB_OFFLINE, {_OR_LOCAL}"),
        (is_a(errors.GatedRepoError), restricted, f"accept its terms at {server} and log in"),
        (is_a(errors.RevisionNotFoundError), no_revision, "check the name of the commit or branch"),
        (no_set, f"data set {hub_id} not found at {server}", "check the name, and log in if it is private"),
        (no_file, f"{place} does not contain the file for {needed_for}", "check the revision"),
        (is_a(errors.HFValidationError), bad_id, "write owner/name"),
        (unreadable, broken, "download its files, and pass their path"),
        (no_network, unreachable, f"check the network and HF_ENDPOINT, {_OR_LOCAL}"),
    ):
        if applies:
            return InputError(message, hint)
    raise error
