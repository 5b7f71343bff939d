"""The models of a server, by name, and the threads that they share."""

from __future__ import annotations

from pathlib import Path

from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.resolve import name_of
from sentemb.encoding.rows import RowEncoder
from sentemb.errors import InputError
from sentemb.modules.source import find_source
from sentemb.search.encoders import has_built, loaded_encoder
from sentemb.search.manifest import Manifest
from sentemb.serving.batcher import ServedEncoder
from sentemb.serving.classification import load_classifier
from sentemb.serving.metrics import Metrics
from sentemb.serving.rerank import load_reranker
from sentemb.serving.scheduler import Scheduler
from sentemb.serving.scored import ScoredTexts
from sentemb.serving.settings import Settings


class Models:
    """Everything that computes.

    Attributes:
        encoders: The encoders by name, those of the models first, then those that only indexes need.
        rerankers: The cross-encoders by name.
        classifiers: The classifiers by name.
        labels: For each classifier its labels, and whether it classifies pairs.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self.scheduler = Scheduler(
            workers=settings.workers, max_waiting=settings.max_waiting, metrics=metrics
        )
        self.encoders: dict[str, ServedEncoder] = {}
        for model in settings.models:
            encoder = load_encoder(
                model,
                precision=settings.precision,
                device=settings.device,
            )
            self._add(encoder, matryoshka=_was_trained_for_fewer_dimensions(model))
        for folder in settings.indexes:
            self._add_for(folder)
        self.rerankers: dict[str, ScoredTexts] = {}
        for reranker in settings.rerankers:
            self._add_scored(self.rerankers, reranker, load_reranker(reranker, device=settings.device))
        self.classifiers: dict[str, ScoredTexts] = {}
        self.labels: dict[str, tuple[tuple[str, ...], bool]] = {}
        for path in settings.classifiers:
            rows = load_classifier(path, device=settings.device)
            name = self._add_scored(self.classifiers, str(path), rows)
            self.labels[name] = rows.classifier.labels, rows.classifier.pairs

    def start(self) -> None:
        """Begin to compute, for the running event loop."""
        self.scheduler.start()
        for encoder in self.encoders.values():
            encoder.open()

    def close(self) -> None:
        """Finish what is queued."""
        self.scheduler.close()
        for encoder in self.encoders.values():
            encoder.close()

    def _add(self, encoder: TextEncoder, *, matryoshka: bool = False) -> None:
        name = encoder.name
        if name in self.encoders:
            raise InputError(f"two models are called {name}", "rename one of their folders")
        self.encoders[name] = ServedEncoder(
            name,
            encoder,
            self.scheduler,
            self._metrics,
            truncate=self._settings.truncate,
            matryoshka=matryoshka,
        )

    def _add_scored(self, kind: dict[str, ScoredTexts], address: str, rows: RowEncoder) -> str:
        name = name_of(address)
        if name in kind:
            raise InputError(f"two folders are called {name}", "rename one of them")
        kind[name] = ScoredTexts(name, rows, self.scheduler, self._metrics, truncate=self._settings.truncate)
        return name

    def _add_for(self, folder: Path) -> None:
        """Load the encoder of an index's queries where no model is the same."""
        facts = Manifest.read(folder).encoder
        if not any(has_built(one.queued, facts) for one in self.encoders.values()):
            self._add(loaded_encoder(None, facts, folder))


def _was_trained_for_fewer_dimensions(model: str) -> bool:
    """Whether a model's card names the loss of Matryoshka representations (arXiv:2205.13147)."""
    card = Path(find_source(model).address) / "README.md"
    return card.is_file() and "MatryoshkaLoss" in card.read_text(encoding="utf-8", errors="replace")
