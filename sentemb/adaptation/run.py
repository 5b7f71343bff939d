"""`adapt`: train an encoder on documents, and decide how much of that to keep."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb._machine import faster_precision
from sentemb.adaptation.config import (
    DEFAULT_TEACHER,
    FINISHED,
    NO_TEACHER,
    RAW,
    SETTINGS,
    SHARES,
    STATIC,
    TAUGHT,
    AdaptConfig,
)
from sentemb.adaptation.gain import Gain, calibration, change_of, select
from sentemb.adaptation.held_out import ForgettingCheck, Scores, hold_out, most_pairs_of_a_batch, scores_on
from sentemb.adaptation.outcome import Adapted, adapted_card, kinds_of
from sentemb.adaptation.pairs import allows_pair, draw_pairs
from sentemb.compression.layers import layers_of
from sentemb.compression.static_model import static_form
from sentemb.compression.variants import write_copy
from sentemb.data.columns import LABEL
from sentemb.data.documents import Document, read_unique_documents
from sentemb.data.words import language_of
from sentemb.encoding import NonFiniteError, for_role, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Role
from sentemb.encoding.sentence import prompt_of
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.modules.loading import default_pooling
from sentemb.modules.source import find_source
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import refuse_several
from sentemb.training.session import Session, run_session
from sentemb.training.trainer import bucketed_by_length

_READ = 1000  # documents from which the language is detected

Weights = Mapping[str, Tensor]


def weights_of(model: SentenceTransformer) -> dict[str, Tensor]:
    """Return a copy of a model's weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def blend(model: SentenceTransformer, base: Weights, trained: Weights, share: float) -> None:
    """Set a model's weights between those of the base and the trained ones; integers stay those of the base.

    Their mean often keeps what the base knew and adds what was learned (Wortsman et al.: Robust Fine-Tuning
    of Zero-Shot Models. CVPR 2022). A share of 0 is the base, also where training has diverged.
    """
    model.load_state_dict(
        {
            name: torch.lerp(tensor, trained[name], share) if share and tensor.is_floating_point() else tensor
            for name, tensor in base.items()
        }
    )


def train_last_layers(model: SentenceTransformer, count: int) -> None:
    """Freeze everything but the last layers of the transformer, and what comes after them."""
    layers = layers_of(model)
    if layers is None:
        raise InputError("the base does not have layers that could be trained alone", "remove --layers")
    if count > len(layers):
        raise InputError(f"the base has {len(layers)} layers, not {count}", "lower --layers")
    model[0].requires_grad_(False)
    for layer in layers[-count:]:
        layer.requires_grad_(True)


def in_order(dataset: Any, batch_size: int, drop_last: bool, **kwargs: Any) -> BatchSampler:
    """Return batches of rows in their order, for `batch_sampler=` of sentence-transformers' trainer."""
    return BatchSampler(SequentialSampler(dataset), batch_size, drop_last)


class MinutesCallback(TrainerCallback):
    """Saves and ends training when its time is over. A resumed run has the whole time again."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.over = False  # whether a training ended because of it
        self._began = time.monotonic()

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End the training if its time is over."""
        if time.monotonic() - self._began > self.seconds:
            self.over = state.global_step < state.max_steps
            control.should_save = control.should_training_stop = True


class Candidate(NamedTuple):
    """A model between the base and the trained weights."""

    share: float  # of the trained weights
    scores: Scores  # on the generated queries
    gain: Gain | None  # the predicted change on real queries; None if it cannot be predicted
    general: Mapping[str, float]  # scores on general tasks, if they are limited


class AdaptSession(Session):
    """Train the base on pairs of the documents; queries from held-out ones say how much of that to keep."""

    config: AdaptConfig

    def __init__(
        self,
        config: AdaptConfig,
        documents: Sequence[Document],
        *,
        kind: str,
        progress: ConsoleProgress | None,
    ) -> None:
        (seed,) = config.seeds
        self.documents, self.kind = documents, kind
        language = _language(documents)
        self.parts = hold_out(documents, language=language, seed=seed)
        able = sum(map(allows_pair, self.parts.train))
        if able and config.batch_size > able:  # a document twice would be its own negative
            raise InputError(
                f"batch_size {config.batch_size}: only {able} documents of six words or more to train on",
                "lower it, so that a batch takes each at most once",
            )
        count = config.max_steps * config.batch_size
        refuse_above("pairs", count, f"steps {config.max_steps}, each of batch_size {config.batch_size}")
        self.pairs = draw_pairs(
            self.parts.train, count, language=language, seed=seed, batch_size=config.batch_size
        )
        if not self.pairs:
            raise InputError(
                "no document has six words or more, so that no training pair can be made",
                "provide longer documents",
            )
        limit = config.max_forgetting
        self.forgetting = None if limit is None else ForgettingCheck(limit, config.data_dir)
        self.teacher = load_encoder(config.teacher, precision="reduced") if config.teacher else None
        self.eval_steps = config.save_steps
        super().__init__(
            config, progress=progress, rows=Dataset.from_list([pair._asdict() for pair in self.pairs])
        )
        if config.layers is not None:
            train_last_layers(self.model, config.layers)
        self.loss = build_loss(config, bucketed_by_length(self.model))
        negatives_per_anchor(self.loss, batch_size=config.batch_size, columns=self.text_columns)  # or refuses
        self.limit = MinutesCallback(config.minutes)
        self.outcome: Adapted | None = None
        queries = sum(map(len, self.parts.queries))
        self.remarks = (
            f"{len(documents)} documents, {len(self.parts.train)} of them for training; {queries} queries "
            "generated from the others decide",
        )

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search, which its name says."""
        return "query" if column == "query" else "document"

    def prepare(self) -> None:
        """Keep the weights of the base, and let the teacher, if there is one, encode the pairs."""
        self.source = find_source(self.config.base)
        self.static = static_form(self.model, self.source)
        self.start_weights: Weights = weights_of(self.model)
        if self.teacher is None:
            return
        kept = CachedEncoder(self.teacher, self.kept_vectors)
        queries, documents = ([pair[side] for pair in self.pairs] for side in (0, 1))
        # The vectors of both texts, as `InBatchDistillationLoss` takes them.
        sides = [
            self.encode_by_teacher(for_role(kept, "query"), queries, name=self.teacher.name),
            self.encode_by_teacher(for_role(kept, "document"), documents, name=self.teacher.name),
        ]
        vectors = np.hstack(sides).astype(np.float32, copy=False)
        labels = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        self.rows = Dataset(pa.table({"query": queries, "document": documents, LABEL: labels}))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer; pairs come in their order, and training ends with its time."""
        trainer = super().make_trainer([*callbacks, self.limit], fresh=fresh)
        trainer.args.batch_sampler = in_order
        return trainer

    def describe(self) -> dict[str, Any]:
        """Describe for the record what is trained on what."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(f"{document.title}\0{document.text}\0".encode("utf-8", "surrogatepass"))
        data = {
            "source": public_name(self.config.documents),
            "sha256": digest.hexdigest(),
            "documents": len(self.documents),
            "trained_on": len(self.parts.train),
        }
        return {"data": data, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Choose how much of the trained weights to keep."""
        if self.limit.over:
            self.announce(
                f"training was stopped by the time limit of {self.config.minutes:g} minutes (--minutes)"
            )
        trained = weights_of(self.model)
        self.take(trained, 0.0)
        before = scores_on(self.model, self.parts.queries)
        known = {} if self.forgetting is None else self.forgetting.scores(self.model)
        self.candidates = list(self._candidates(trained, before))
        check = self.forgetting
        able = [one for one in self.candidates if check is None or check.passes(one.general, known)]
        predicted = [one for one in able if one.gain is not None]
        place = select([one.gain for one in predicted if one.gain is not None], self.kind)
        chosen = None if place is None else predicted[place]
        if chosen is None:
            self.model = load(self.config.base, pooling=self.config.pooling)  # type: ignore[arg-type]
        else:
            self.take(trained, chosen.share)
        shown = chosen or max(able or self.candidates, key=_chance)
        self.outcome = Adapted(
            output=Path(self.config.output),
            base=public_name(self.config.base),
            helped=chosen is not None,
            gain=shown.gain,
            kinds=kinds_of(before, shown.scores),
            share=0.0 if chosen is None else chosen.share,
            step=kept.step,
            reliability=calibration().reliability[self.kind],
            general={name: (known[name], score) for name, score in chosen.general.items()}
            if chosen is not None and known
            else None,
            forgetting=self.config.max_forgetting,
            forgot=not able,
        )
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Describe for the record how the weights were chosen."""
        gains = {f"{one.share:g}": one.gain and one.gain.ndcg.mean for one in self.candidates}
        return {
            "set": "queries generated from held-out documents",
            "metric": "predicted change of NDCG@10 on real queries",
            "shares": gains,
        }

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return the verdict."""
        assert self.outcome is not None  # finish comes first
        return {"adaptation": self.outcome.values()}

    def write_model(self, folder: Path) -> None:
        """Write the encoder."""
        assert self.outcome is not None  # finish comes first
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)
        folder.mkdir()
        # sentence-transformers does not look for the prompt of documents under any other name.
        self.model.prompts["document"] = prompt_of(self.model, "document")
        if not self.outcome.helped and self.config.pooling is None:
            write_copy(self.source, self.model, folder)
        elif self.outcome.helped and self.static is not None:
            self.static.write(folder)
        else:
            self.model.save_pretrained(str(folder), create_model_card=False)

    def card(self, record: dict[str, Any]) -> str:
        """Return the text of the model's card."""
        assert self.outcome is not None  # finish comes first
        return adapted_card(self.config, self.model, record, self.outcome, loss=self.loss)

    def take(self, trained: Weights, share: float) -> None:
        """Give the model the base's weights and a share of their change, as its folder will keep them."""
        blend(self.model, self.start_weights, trained, share)
        if self.static is not None:
            self.static.round_table()

    def _candidates(self, trained: Weights, before: Scores) -> Iterator[Candidate]:
        """Yield a candidate for each share; weights that have diverged score 0."""
        for share in SHARES[self.kind]:
            self.take(trained, share)
            try:
                scores = scores_on(self.model, self.parts.queries)
                general = {} if self.forgetting is None else self.forgetting.scores(self.model)
            except NonFiniteError:
                scores, general = {key: 0 * own for key, own in before.items()}, {}
            change = change_of(before, scores, share=share, kind=self.kind)
            yield Candidate(share, scores, change and calibration().predict(change), general)


def _chance(one: Candidate) -> float:
    return 0.0 if one.gain is None else one.gain.ndcg.chance


def _language(documents: Sequence[Document]) -> str:
    return language_of(document.whole for document in documents[:_READ])


def adapt(
    documents: str | Path | Sequence[Document],
    base: str,
    output: str | Path,
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
    **settings: Any,
) -> Adapted:
    """Adapt an encoder to documents, without labels, and predict whether that helps on real queries.

    Training pairs of a query and its document are made from the structure of the documents and trained on
    with in-batch negatives. The trained weights are averaged with the base's in a few ratios. Queries
    generated from held-out documents predict the change of each on real queries. The best is returned if a
    gain is likely (88 %); otherwise the folder holds the base as it was.

    With a teacher, the model learns the teacher's similarities of the texts of a batch. A pretrained
    transformer without sentence-level training has the bundled encoder as teacher for English documents;
    `teacher="none"` trains it on pairs alone.

    Args:
        documents: What `read_unique_documents` takes, or documents that are read already.
        base: Encoder: a folder, a hub id or a bundled model; also a pretrained transformer or a static model.
        output: Folder for the model, its card, and all about the run in `run/`.
        resume: Resume the interrupted run in the folder, if there is one.
        progress: Where to show progress.
        **settings: Fields of `AdaptConfig`, such as `minutes`, `max_steps`, `teacher`, `layers`,
            `max_forgetting`, `seeds`.

    Returns:
        The outcome.

    Raises:
        InputError: The documents, the base, a setting or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> adapt("docs/", "all-MiniLM-L6-v2", "mine").verdict()  # doctest: +SKIP
    """
    refuse_several("adaptation")
    given = {name: value for name, value in settings.items() if value is not None}
    read: Sequence[Document] = (
        read_unique_documents(
            documents,
            text_column=given.get("text_column"),
            title_column=given.get("title_column"),
            data_dir=given.get("data_dir"),
        )
        if isinstance(documents, str | Path)
        else documents
    )
    source = str(documents) if isinstance(documents, str | Path) else f"{len(documents)} documents"
    config, kind = configured(read, base, output, {"documents": source, **given})

    def make() -> AdaptSession:
        return AdaptSession(config, read, kind=kind, progress=progress)

    session, _ = run_session(config, make, resume=resume)
    shutil.rmtree(session.kept_vectors, ignore_errors=True)
    assert session.outcome is not None  # the run is over
    return session.outcome


def configured(
    documents: Sequence[Document], base: str, output: str | Path, given: Mapping[str, Any]
) -> tuple[AdaptConfig, str]:
    """Return the configuration of an adaptation with the defaults of its kind of base, and the kind."""
    kind = RAW
    if is_finished_encoder(base):
        kind = STATIC if isinstance(load(base)[0], StaticEmbedding) else FINISHED
    # Token vectors are looked up, not multiplied.
    values = {**SETTINGS[kind], "precision": "float32" if kind == STATIC else faster_precision()}
    if kind == RAW:
        values["pooling"] = default_pooling(find_source(base))
    (seed,) = given.get("seeds", (1,))[:1]
    values["batch_size"] = min(values["batch_size"], most_pairs_of_a_batch(documents, seed=seed))
    teacher = given.get("teacher")
    if teacher is None and kind == RAW and _language(documents) == "en":
        teacher = DEFAULT_TEACHER
    teacher = None if teacher == NO_TEACHER else teacher
    values |= TAUGHT if teacher else {}
    values |= {"documents": f"{len(documents)} documents", **given, "teacher": teacher}
    config = AdaptConfig(base=base, output=str(output), **values)
    config.check_single_seed()
    return config, kind
