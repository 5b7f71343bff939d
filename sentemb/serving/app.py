"""The application: the routes, what guards them, and what they share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from sentemb import __version__
from sentemb.serving.auth import OPEN_PATHS, SCHEME
from sentemb.serving.classification import classification_router
from sentemb.serving.embeddings import embeddings_router
from sentemb.serving.guards import Guard, JsonRoute
from sentemb.serving.indexes import Indexes
from sentemb.serving.metrics import CONTENT_TYPE, Metrics
from sentemb.serving.models import Models
from sentemb.serving.page import page_router
from sentemb.serving.problems import Problem, ProblemDocument, handle_problems, problem_responses
from sentemb.serving.rerank import rerank_router
from sentemb.serving.search_api import search_router
from sentemb.serving.settings import Settings

# What any request may be answered, whatever its route, before the route or in it.
_ANY_ROUTE = (400, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 431, 500, 503, 507)
_SUMMARY = "Embeddings, reranking, classification and search with sentemb over HTTP"


def create_app(settings: Settings) -> FastAPI:
    """Load models and indexes, and make the application that serves them.

    Args:
        settings: What to serve, and to whom.

    Returns:
        The application. Its `state` has `settings`, `metrics`, `models`, `indexes`, and `encoders`: a
        `ServedEncoder` by name.

    Raises:
        InputError: The settings do not fit together, or a model or index cannot be read.
    """
    settings = settings.checked()
    metrics = Metrics()
    models = Models(settings, metrics)
    indexes = Indexes.open(settings.indexes, models.encoders)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        models.start()
        app.state.ready = True
        try:
            yield
        finally:
            app.state.ready = False
            models.close()
            indexes.close()

    app = FastAPI(
        title="sentemb",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.models = models
    app.state.encoders = models.encoders
    app.state.indexes = indexes
    app.state.ready = False
    app.include_router(_router(metrics))
    for router in (embeddings_router, rerank_router, classification_router, search_router, page_router):
        app.include_router(router())
    handle_problems(app)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _router(metrics: Metrics) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, tags=["server"])

    @router.get("/health", summary="Report that the process is alive")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @router.get("/ready", summary="Report whether the server is ready for requests")
    async def ready(request: Request) -> dict[str, str]:
        if not request.app.state.ready:
            raise Problem(
                503, "the server is starting or stopping; try again in 1 s", headers={"Retry-After": "1"}
            )
        return {"status": "ready"}

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_class=PlainTextResponse,
    )
    async def counters() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return router


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The schema, with every status that a request may be answered and the key where one is asked for."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=_SUMMARY)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"), ProblemDocument=problem)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    locked = app.state.settings.keys is not None
    if locked:
        components["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            responses = operation["responses"]
            statuses = _ANY_ROUTE if path in OPEN_PATHS or not locked else (*_ANY_ROUTE, 401)
            for status, response in problem_responses(*statuses).items():
                responses[str(status)] = response
            if locked and path not in OPEN_PATHS:
                operation["security"] = [{SCHEME: []}]
    app.openapi_schema = schema
    return schema
