"""From an encoder to its result record, for every program that makes one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.measures import Protocol
from sentemb.evaluation.naming import seed_of
from sentemb.evaluation.records import check_free
from sentemb.evaluation.result import ResultRecord, file_name_of, record_of
from sentemb.evaluation.sts import evaluate_pairs
from sentemb.evaluation.suites import STS, Suite


def judge_sts(
    encoder: TextEncoder | str | Path,
    pairs: Sequence[ScoredPairs],
    *,
    folder: Path | None = None,
    overwrite: bool = False,
    suite: Suite = STS,
    protocol: Protocol | None = None,
    seed: int | None = None,
    command: Sequence[str] | None = None,
    progress: bool = False,
) -> ResultRecord:
    """Score an encoder on sets of pairs, once it is sure that its record has a place."""
    loaded = load_encoder(encoder)
    protocol = protocol or suite.protocol
    seed = seed_of(loaded.name) if seed is None else seed
    if folder is not None:
        path = folder / file_name_of(loaded.name, suite=suite.name, protocol=protocol, seed=seed)
        check_free(path, loaded.fingerprint, overwrite=overwrite)
    report = evaluate_pairs(loaded, pairs, progress=progress)
    return record_of(report, suite=suite, protocol=protocol, seed=seed, command=command)
