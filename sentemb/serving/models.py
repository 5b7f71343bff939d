"""The models of a server, by name, and the threads that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.encoding import TextEncoder, load_encoder
from sentemb.errors import InputError
from sentemb.modules.source import find_source
from sentemb.search.encoders import AdaptedEncoder, matching
from sentemb.search.view import open_view
from sentemb.serving.batcher import ServedEncoder
from sentemb.serving.metrics import Metrics
from sentemb.serving.problems import Problem
from sentemb.serving.scheduler import Scheduler
from sentemb.serving.settings import Settings


class Models:
    """Everything that computes.

    Attributes:
        encoders: The encoders by name, those of the models first, then those that only indexes need.
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
                cache_dir=settings.cache_dir,
            )
            self._add(encoder, matryoshka=_was_trained_for_fewer_dimensions(model))
        for folder in settings.indexes:
            self._add_for(folder)

    def encoder_of(self, fingerprint: str) -> ServedEncoder:
        """The encoder with a fingerprint."""
        return next(one for one in self.encoders.values() if one.fingerprint == fingerprint)

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
            raise InputError(f"two models are called {name}", "give their folders different names")
        self.encoders[name] = ServedEncoder(
            name,
            encoder,
            self.scheduler,
            self._metrics,
            truncate=self._settings.truncate,
            matryoshka=matryoshka,
        )

    def _add_for(self, folder: Path) -> None:
        """Load the encoder of an index's queries where no model is the same."""
        view = open_view(folder, verify=False)
        wanted = view.manifest.encoder.fingerprint
        if any(one.fingerprint == wanted for one in self.encoders.values()):
            return
        encoder = matching(None, view, folder)
        self._add(encoder.queries if isinstance(encoder, AdaptedEncoder) else encoder)


def named(encoders: dict[str, Any], name: str, what: str, field: str = "model") -> Any:
    """What a request names.

    Raises:
        Problem: 404, there is none of that name.
    """
    found = encoders.get(name)
    if found is None:
        known = ", ".join(sorted(encoders)) or "none"
        raise Problem(404, f"there is no {what} {name[:100]!r}; there are: {known}", field=field)
    return found


def _was_trained_for_fewer_dimensions(model: str) -> bool:
    """Whether a model's card names the loss of Matryoshka representations (arXiv:2205.13147)."""
    card = Path(find_source(model).address) / "README.md"
    return card.is_file() and "MatryoshkaLoss" in card.read_text(encoding="utf-8", errors="replace")
