"""A smaller transformer as a student: fewer layers, trained to the teacher's vectors on your texts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.compression.distillation import Agreement
from sentemb.compression.layered_session import LayeredConfig, LayeredSession
from sentemb.compression.speed import TIMED, Speed, speed_of
from sentemb.data.own_documents import read_own_documents
from sentemb.encoding import load_encoder
from sentemb.pretraining.throughput import faster_precision
from sentemb.training.folder import RunFolder
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import refuse_several


class LayeredStudent(NamedTuple):
    """A student with fewer layers.

    Attributes:
        output: Its folder.
        agreement: On the held-out texts.
        before: Mean cosine with the teacher on them before the first step.
        held_out: These texts.
        speed: Of student and teacher, each on the best device there is.
    """

    output: Path
    agreement: Agreement
    before: float
    held_out: list[str]
    speed: Speed


def distill_layers(
    teacher: str,
    texts: str | Path,
    output: str | Path,
    *,
    layers: int,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
    **settings: Any,
) -> LayeredStudent:
    """Take layers out of an encoder and train the rest to its vectors of your texts.

    Those layers go without which the vectors change least, and a matrix is put behind the others
    (`sentemb.compression.prune`). All weights then learn the teacher's vectors.

    Args:
        teacher: A transformer: a folder, a hub id or a bundled model.
        texts: What `read_own_documents` takes.
        output: Folder for the model, its card, and all about the run in `run/`.
        layers: How many the student keeps.
        resume: Resume the interrupted run in the folder, if there is one.
        progress: Where to show progress.
        **settings: Fields of `LayeredConfig`, such as `sentences`, `max_steps`, `seeds`.

    Returns:
        The student.

    Raises:
        InputError: The texts, the teacher, a setting or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> distill_layers("all-MiniLM-L6-v2", "docs/", "small", layers=3).agreement  # doctest: +SKIP
    """
    refuse_several("distillation")
    given = {name: value for name, value in settings.items() if value is not None}
    values = {"precision": faster_precision(), **given}
    config = LayeredConfig(base=teacher, texts=str(texts), output=str(output), layers=layers, **values)
    config.check_single_seed("distill")
    RunFolder(Path(config.output)).check(config, resume=resume)
    documents = read_own_documents(
        texts,
        text_column=config.text_column,
        # As given: to the configuration "none", which takes no titles, is the same as nothing given.
        title_column=given.get("title_column"),
        data_dir=config.data_dir,
    )
    with without_upstream_bars():
        session = LayeredSession(config, documents, progress=progress)
        session.run(resume=resume)
        shutil.rmtree(session.kept_vectors, ignore_errors=True)
        folder, held_out = session.folder.path, session.texts.held_out
        whole = load_encoder(teacher, pooling=config.pooling)  # type: ignore[arg-type]
        speed = speed_of(load_encoder(folder), whole, held_out[:TIMED])
    assert session.agreement is not None  # the run is over
    return LayeredStudent(folder, session.agreement, session.scores[0], held_out, speed)
