"""A run that adapts an encoder to documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import TrainerCallback

from sentemb.adaptation.card import adapted_card
from sentemb.adaptation.config import SHARES, AdaptConfig
from sentemb.adaptation.forgetting import ForgettingCheck
from sentemb.adaptation.gain import Gain, calibration, change_of, select
from sentemb.adaptation.held_out import Parts, Scores, hold_out, scores_on
from sentemb.adaptation.outcome import Adapted, kinds_of
from sentemb.adaptation.pairs import allows_pair, draw_pairs
from sentemb.adaptation.training import (
    MinutesCallback,
    Weights,
    blend,
    in_order,
    label_with_teacher,
    train_last_layers,
    weights_of,
)
from sentemb.compression.static_model import static_form
from sentemb.compression.variants import write_copy
from sentemb.data.documents import Document
from sentemb.data.language import language_of
from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Role
from sentemb.encoding.sentence import prompt_of
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.modules import load
from sentemb.modules.cards import public_name
from sentemb.modules.source import find_source
from sentemb.training.card import write_card
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.session import Session


class Candidate(NamedTuple):
    """A model between the base and the trained weights.

    Attributes:
        share: Share of the trained weights.
        scores: Its scores on the generated queries.
        gain: The predicted change on real queries; None if it cannot be predicted.
        general: Its scores on general tasks, where they are limited.
    """

    share: float
    scores: Scores
    gain: Gain | None
    general: Mapping[str, float]


class AdaptSession(Session):
    """Train the base on pairs of the documents; queries from held-out documents say how much of that to keep.

    Args:
        config: The configuration.
        documents: The documents.
        kind: The kind of base, of `SHARES`.
        progress: Where to show progress.

    Raises:
        InputError: Something in the configuration or the documents cannot be used.
    """

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
        language = language_of(document.whole for document in documents[:1000])
        self.parts: Parts = hold_out(documents, language=language, seed=seed)
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
        if self.teacher is not None:
            kept = CachedEncoder(self.teacher, self.kept_vectors)
            self.rows = label_with_teacher(
                self.pairs, kept, partial(self.encode_by_teacher, name=self.teacher.name)
            )

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
        able = [one for one in self.candidates if self._remembers(one, known)]
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

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the encoder and its card."""
        assert self.outcome is not None  # finish comes first
        outcome = self.outcome
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)
        folder.mkdir()
        # sentence-transformers does not look for the prompt of documents under any other name.
        self.model.prompts["document"] = prompt_of(self.model, "document")
        if not outcome.helped and self.config.pooling is None:
            write_copy(self.source, self.model, folder)
        elif outcome.helped and self.static is not None:
            self.static.write(folder)
        else:
            self.model.save_pretrained(str(folder), create_model_card=False)
        write_card(
            folder / "README.md",
            lambda: adapted_card(self.config, self.model, record, outcome, loss=self.loss),
        )

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

    def _remembers(self, one: Candidate, known: Mapping[str, float]) -> bool:
        """Return whether a candidate keeps general quality, where that is limited."""
        return self.forgetting is None or self.forgetting.passes(one.general, known)


def _chance(one: Candidate) -> float:
    return 0.0 if one.gain is None else one.gain.ndcg.chance
