"""From plain text to a masked language model in a folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from sentemb.errors import InputError
from sentemb.pretraining.session import PretrainSession
from sentemb.training.config import PretrainConfig as PretrainConfig
from sentemb.training.folder import RunFolder
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import refuse_several


def pretrain(config: PretrainConfig, *, resume: bool = False, progress: ConsoleProgress | None = None) -> Run:
    """Pre-train a new BERT, or continue pre-training a base, by masked language modelling.

    The output is a transformers folder that SentenceTransformer loads; tokenised text, metrics and record are
    in `run/`. Every complete checkpoint is such a folder too. The same configuration and text on the same
    machine give the same weights, interrupted and resumed or not, unless wall time ends the run or a new
    vocabulary is made: the tokenizers library picks among equally frequent pieces at random.

    Args:
        config: The configuration, with one seed.
        resume: Resume the interrupted run in the output folder, if there is one. Its end may be another.
        progress: Where to show progress.

    Returns:
        The finished run.

    Raises:
        InputError: Something in the configuration, the corpus or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("mlm", overrides={"corpus": ["my.txt"], "output": "base"})
        >>> run = pretrain(config)  # doctest: +SKIP
    """
    config.check_single_seed("pretrain")
    if torch.cuda.device_count() > 1:
        raise InputError("more than one GPU is visible", "set CUDA_VISIBLE_DEVICES to one of them")
    folder = Path(config.output)
    if config.cache is not None and Path(config.cache).exists() and not Path(config.cache).is_dir():
        raise InputError(f"--cache {config.cache} is not a folder", "use an existing folder or a new one")
    refuse_several("masked language modeling")
    RunFolder(folder).check(config, resume=resume)
    with _cleanup_on_error(folder), without_upstream_bars():
        return PretrainSession(config, progress=progress).run(resume=resume)


@contextlib.contextmanager
def _cleanup_on_error(folder: Path) -> Iterator[None]:
    """Leave a folder absent or empty, as it was, after an error before the first checkpoint."""
    present = folder.exists()
    new = not present or not any(folder.iterdir())
    try:
        yield
    except InputError:
        if new and not any(folder.glob("run/checkpoints/checkpoint-*")):
            shutil.rmtree(folder, ignore_errors=True)
            if present:
                folder.mkdir(exist_ok=True)
        raise
