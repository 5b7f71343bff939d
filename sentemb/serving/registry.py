"""Registry of all models and indexes of a server, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from sentemb.classification import Classifier
from sentemb.encoding import TextEncoder, for_role, load_encoder
from sentemb.encoding.resolve import name_of
from sentemb.encoding.rows import RowEncoder
from sentemb.errors import InputError, naming
from sentemb.modules.source import find_source
from sentemb.search.folder import read_manifest
from sentemb.serving.metrics import Metrics
from sentemb.serving.models import ServedEncoder, ServedModel
from sentemb.serving.scheduler import Scheduler
from sentemb.serving.scoring import ClassifierRows, PairRows
from sentemb.serving.search import ServedIndex
from sentemb.serving.settings import Settings


class Registry:
    """The models and indexes of a server, by name, and the threads that they share."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._truncate = settings.truncate
        self._scheduler = Scheduler(
            workers=settings.workers, max_waiting=settings.max_waiting, metrics=metrics
        )
        self.encoders: dict[str, ServedEncoder] = {}  # of the settings, then those that only indexes need
        self.rerankers: dict[str, ServedModel] = {}
        self.classifiers: dict[str, tuple[ServedModel, Classifier]] = {}  # behind the queues, and as loaded
        self.indexes: dict[str, ServedIndex] = {}
        for model in settings.models:
            encoder = load_encoder(model, precision=settings.precision, device=settings.device)
            self._add_encoder(encoder, is_matryoshka=_is_matryoshka(model))
        for reranker in settings.rerankers:
            name = _new_name(name_of(reranker), self.rerankers)
            self.rerankers[name] = self._served(name, PairRows(reranker, device=settings.device))
        for folder in settings.classifiers:
            name = _new_name(name_of(str(folder)), self.classifiers)
            classifier = Classifier.load(folder, device=settings.device)
            self.classifiers[name] = self._served(name, ClassifierRows(classifier)), classifier
        for path in settings.indexes:
            name = path.resolve().name
            if name in self.indexes:
                raise InputError(
                    f"{path} and {self.indexes[name].path} are both called {name}", "rename one of them"
                )
            self.indexes[name] = ServedIndex(name, path, self._encoder_of(path))

    def start(self) -> None:
        """Start to compute, for the running event loop."""
        self._scheduler.start()
        for encoder in self.encoders.values():
            encoder.loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Finish what is queued; the files of the indexes are closed with their last search."""
        self._scheduler.close()
        classifiers = (model for model, _ in self.classifiers.values())
        for model in (*self.encoders.values(), *self.rerankers.values(), *classifiers):
            model.close()
        self.indexes.clear()

    def _served(self, name: str, rows: RowEncoder) -> ServedModel:
        return ServedModel(name, {None: rows}, self._scheduler, self._truncate)

    def _add_encoder(self, encoder: TextEncoder, *, is_matryoshka: bool = False) -> ServedEncoder:
        name = _new_name(encoder.name, self.encoders)
        served = ServedEncoder(encoder, self._scheduler, self._truncate, is_matryoshka=is_matryoshka)
        self.encoders[name] = served
        return served

    def _encoder_of(self, path: Path) -> ServedEncoder:
        """Return the served encoder of an index; load it if no model is the same."""
        facts = read_manifest(path).encoder
        for served in self.encoders.values():
            documents = for_role(served.encoder, "document")
            if facts.fingerprint in (served.fingerprint, documents.fingerprint):
                built = facts.details.get("precision", served.precision)
                if built != served.precision:
                    raise InputError(
                        f"{path} was built with {built}, and {served.name} is served with "
                        f"{served.precision}, whose vectors differ a little",
                        "build the index with the same --precision, or serve it separately",
                    )
                return served
        if facts.source is None:
            raise InputError(
                f"{path} was built with {facts.name}, whose location is not known",
                "serve its model too: sentemb serve MODEL --index FOLDER",
            )
        with naming(f"the encoder of {path}"):
            encoder = facts.source.load()
        return self._add_encoder(encoder)


def _new_name(name: str, known: Collection[str]) -> str:
    if name in known:
        raise InputError(f"two models are called {name}", "rename one of their folders")
    return name


def _is_matryoshka(model: str) -> bool:
    """Return whether a model was trained for shorter vectors (arXiv:2205.13147), by its model card."""
    card = Path(find_source(model).address) / "README.md"
    return card.is_file() and "MatryoshkaLoss" in card.read_text(encoding="utf-8", errors="replace")
