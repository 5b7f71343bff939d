"""The server's metrics for Prometheus."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """Metrics of one server, in a separate registry."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.requests = counter("sentemb_requests", "Answered requests.", ["route", "method", "status"])
        self.seconds = histogram(
            "sentemb_request_seconds", "Seconds from header to answer.", ["route"], buckets=_SECONDS
        )
        self.open = gauge("sentemb_requests_open", "Requests in progress.")
        self.texts = counter("sentemb_texts", "Encoded texts.", ["model"])
        self.tokens = counter("sentemb_tokens", "Processed tokens.", ["model"])
        self.truncated = counter("sentemb_texts_truncated", "Truncated texts.", ["model"])
        self.waiting = gauge("sentemb_tokens_waiting", "Estimated tokens of waiting requests.")
        self.refused = counter("sentemb_requests_refused", "Requests rejected because the queue was full.")
        self.dropped = counter("sentemb_texts_dropped", "Texts not computed because the client was gone.")
        self.batch_tokens = histogram("sentemb_batch_tokens", "Tokens per batch.", ["queue"], buckets=_TOKENS)
        self.batch_texts = counter("sentemb_batch_texts", "Computed texts.", ["queue"])
        self.busy = counter("sentemb_model_seconds", "Seconds of computation in model threads.", ["queue"])

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request; clients invent methods, and every label value is kept forever."""
        method = method if method in _METHODS else "other"
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
