"""A run that adapts an encoder to documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset
from transformers import TrainerCallback

from sentemb.adaptation.blending import Weights, blend, weights_of
from sentemb.adaptation.card import adapted_card
from sentemb.adaptation.config import AdaptConfig
from sentemb.adaptation.general import General
from sentemb.adaptation.held_out import DevQueries, Parts, RememberingSearcher, hold_out, ranks_of
from sentemb.adaptation.layers import train_last_layers
from sentemb.adaptation.limit import MinutesCallback, in_order
from sentemb.adaptation.outcome import Adapted, choose
from sentemb.adaptation.pairs import allows_pair, draw_pairs
from sentemb.adaptation.teaching import taught
from sentemb.adaptation.whitening import Whitening, whiten, whitenings
from sentemb.compression.copies import write_copy
from sentemb.compression.static_form import static_form
from sentemb.data.language import language_of
from sentemb.data.own_documents import OwnDocument
from sentemb.encoding import load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Role
from sentemb.encoding.sentence import prompt_of
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.limits import refuse_above
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.modules.source import find_source
from sentemb.training.card import write_card
from sentemb.training.encoder_session import EncoderSession
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress

SHARES = (0.5, 0.75)
"""Of the change, tried on the dev queries beside the whole of it."""
_ENOUGH = 0.9  # of the best gain: the smallest such share is taken, since the rest costs other knowledge


class AdaptSession(EncoderSession):
    """Whitens the base, trains it on pairs of the documents, and lets held-out queries say what helped.

    Raises:
        InputError: Something in the configuration or the documents cannot be used.
    """

    config: AdaptConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(
        self, config: AdaptConfig, documents: Sequence[OwnDocument], *, progress: ConsoleProgress | None
    ) -> None:
        (seed,) = config.seeds
        self.documents = documents
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
                "no document has six words or more, so that a pair could be cut out of it",
                "give longer documents",
            )
        self.general = General(config.data_dir) if config.also_general else None
        self.teacher = load_encoder(config.teacher, precision="reduced") if config.teacher else None
        self.evaluator = DevQueries(self.parts.dev)
        self.eval_steps = config.eval_steps
        super().__init__(
            config, progress=progress, rows=Dataset.from_list([pair._asdict() for pair in self.pairs])
        )
        if config.layers is not None:
            train_last_layers(self.model, config.layers)
        self.loss = build_loss(config, bucketed_by_length(self.model))
        negatives_per_anchor(self.loss, batch_size=config.batch_size, columns=self.text_columns)  # or refuses
        self.limit = MinutesCallback(config.minutes)
        self.whitening: Whitening | None = None
        self.lost_general = False  # whether something gained on the dev queries, at the cost of other tasks
        self.outcome: Adapted | None = None
        queries = sum(map(len, self.parts.test))
        self.remarks = (
            f"{len(documents)} documents, {len(self.parts.train)} of them to train on; "
            f"{queries} queries are cut out of the others for the verdict",
        )

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search, which its name says."""
        return "query" if column == "query" else "document"

    def prepare(self) -> None:
        """Whiten the base, if that helps, and let the teacher, if there is one, encode the pairs."""
        self.known = {} if self.general is None else self.general.scores(self.model)
        if self.config.whitening:
            self._whiten()
        self.source = find_source(self.config.base)
        self.static = static_form(self.model, self.source)
        self.start_weights: Weights = weights_of(self.model)
        if self.teacher is not None:
            kept = CachedEncoder(self.teacher, self.kept_vectors)
            self.rows = taught(self.pairs, kept, partial(self.encode_by_teacher, name=self.teacher.name))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool, in_memory: bool) -> Any:
        """Make the trainer; pairs come in their order, and training ends with its time."""
        trainer = super().make_trainer([*callbacks, self.limit], fresh=fresh, in_memory=in_memory)
        trainer.args.batch_sampler = in_order
        return trainer

    def describe(self) -> dict[str, Any]:
        """Say for the record what is trained on what."""
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
        """Choose how much of the change to keep, and compare with the base on the test queries."""
        trained = weights_of(self.model)
        shares: dict[float, float] = {0.0: self.scores[0]}
        if kept.step:
            shares[1.0] = self.scores[0] if kept.dev_score is None else kept.dev_score
            for share in SHARES:
                self._take(trained, share)
                shares[share] = self.evaluator(self.model)[self.evaluator.primary_metric]
        self.shares = {share: score for share, score in shares.items() if self._is_general(trained, share)}
        share = _smallest_enough(self.shares)
        self.lost_general |= share == 0 and max(shares.values()) > shares[0.0]
        self.outcome = self._verdict(kept, trained, share)
        if self.limit.over:
            self.announce(
                f"training was ended by the clock, after {self.config.minutes:g} minutes (--minutes)"
            )
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        return {
            "set": "queries cut out of held-out documents",
            "metric": "NDCG@10, the mean over the kinds of queries",
            "initial": scores[0],
            "shares": {f"{share:g}": score for share, score in self.shares.items()},
        }

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """The verdict."""
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

    def _whiten(self) -> None:
        """Put the best whitening behind the base, where one beats it on the dev queries."""
        base = RememberingSearcher(self.model, name="base")
        for one in whitenings(base, self.parts.train, self.parts.dev, seed=self.seed):
            model = whiten(self.model, one.layer)
            if self.general is None or self.general.is_kept(model, self.known):
                self.whitening, self.model = one, model
                self.loss = build_loss(self.config, bucketed_by_length(model))
                self.announce(
                    f"whitened with a ridge of {one.ridge:g}: {one.score:.1f} NDCG@10 on dev queries"
                )
                return
            self.lost_general = True

    def _verdict(self, kept: Run, trained: Weights, share: float) -> Adapted:
        """Compare the candidates on the test queries, and leave the model that wins."""
        shipped = load(self.config.base, pooling=self.config.pooling)  # type: ignore[arg-type]
        base = RememberingSearcher(shipped, name="base")
        before = evaluate_retrieval(base, self.parts.test)
        whitened, after = None, None
        if self.whitening is not None:
            if self.static is None:
                searcher = self.whitening.searcher(base, name="whitened")
                whitened = evaluate_retrieval(searcher, self.parts.test)
            else:
                self._take(trained, 0.0)
                whitened = ranks_of(self.model, self.parts.test, name="whitened")
        self._take(trained, share)
        if share:
            after = ranks_of(self.model, self.parts.test, name="adapted")
        choice = choose(
            before, whitened, after, self.parts.test, raw=not is_finished_encoder(self.config.base)
        )
        if choice.helped and not choice.trained:
            share = 0.0
            self._take(trained, share)
        if not choice.helped:
            self.model = shipped
        general = None
        if self.general is not None and choice.helped:
            after_all = self.general.scores(self.model)
            general = {name: (score, after_all[name]) for name, score in self.known.items()}
        return Adapted(
            output=Path(self.config.output),
            base=public_name(self.config.base),
            helped=choice.helped,
            comparison=choice.comparison,
            step=kept.step,
            share=share,
            ridge=None if self.whitening is None else self.whitening.ridge,
            general=general,
            lost_general=self.lost_general,
        )

    def _take(self, trained: Weights, share: float) -> None:
        """Give the model the start weights and a share of their change, as its folder will keep them."""
        blend(self.model, self.start_weights, trained, share)
        if self.static is not None:
            self.static.round_table()

    def _is_general(self, trained: Weights, share: float) -> bool:
        """Whether a share of the change keeps what the base knows of other tasks, where that is wanted."""
        if self.general is None or share == 0:  # whitening was checked
            return True
        self._take(trained, share)
        return self.general.is_kept(self.model, self.known)


def _smallest_enough(shares: dict[float, float]) -> float:
    """The smallest share with nearly all of the best gain; 0 where nothing gains."""
    before = shares[0.0]
    gain = max(shares.values()) - before
    if gain <= 0:
        return 0.0
    return min(share for share, score in shares.items() if score - before >= _ENOUGH * gain)
