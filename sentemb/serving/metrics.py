"""What a server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """The counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sentemb_requests", "Answered requests.", ["route", "method", "status"], registry=registry
        )
        self.seconds = Histogram(
            "sentemb_request_seconds",
            "Seconds from the header of a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.open = Gauge("sentemb_requests_open", "Requests in progress.", registry=registry)
        self.texts = Counter("sentemb_texts", "Encoded texts.", ["model"], registry=registry)
        self.tokens = Counter("sentemb_tokens", "Processed tokens.", ["model"], registry=registry)
        self.cut = Counter("sentemb_texts_cut", "Truncated texts.", ["model"], registry=registry)
        self.waiting = Gauge(
            "sentemb_tokens_waiting", "Estimated tokens of waiting requests.", registry=registry
        )
        self.refused = Counter(
            "sentemb_requests_refused",
            "Requests rejected with status 429 because the queue was full.",
            registry=registry,
        )
        self.dropped = Counter(
            "sentemb_texts_dropped",
            "Texts that were not computed because the client closed the connection.",
            registry=registry,
        )
        self._batches = Histogram(
            "sentemb_batch_tokens", "Tokens per batch.", ["queue"], buckets=_TOKENS, registry=registry
        )
        self._batch_texts = Counter("sentemb_batch_texts", "Computed texts.", ["queue"], registry=registry)
        self._busy = Counter(
            "sentemb_model_seconds", "Seconds of computation in model threads.", ["queue"], registry=registry
        )

    def batch(self, queue: str, tokens: int, texts: int, seconds: float) -> None:
        """Count a batch."""
        self._batches.labels(queue).observe(tokens)
        self._batch_texts.labels(queue).inc(texts)
        self._busy.labels(queue).inc(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus' format."""
        return generate_latest(self._registry)
