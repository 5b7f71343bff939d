"""Kinds of models, recognised by their configuration: not all are sentence encoders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sentemb.errors import InputError
from sentemb.modules.source import ModelSource

Kind = Literal["encoder", "cross-encoder", "classifier", "sparse", "multi-vector", "static", "code", "other"]

# By the `model_type` that sentence-transformers saves, and by the packages of the modules it lists.
_SAVED: dict[str, Kind] = {
    "CrossEncoder": "cross-encoder",
    "SparseEncoder": "sparse",
    "MultiVectorEncoder": "multi-vector",
    "ColBERT": "multi-vector",
}
_PACKAGES: dict[str, Kind] = {
    "sentence_transformers.cross_encoder.": "cross-encoder",
    "sentence_transformers.sparse_encoder.": "sparse",
    "sentence_transformers.multi_vector_encoder.": "multi-vector",
    "pylate.": "multi-vector",
}
_TRUSTED = ("sentence_transformers.", "sentemb.")
# Models whose kind only their name states, with the suffix of their architecture.
_NAMED: dict[str, tuple[str, Kind]] = {
    "splade": ("ForMaskedLM", "sparse"),
    "rerank": ("ForCausalLM", "cross-encoder"),
}
_WHAT: dict[Kind, tuple[str, str]] = {
    "encoder": ("is a sentence encoder", "remove --reranker to serve it as an embedding model"),
    "cross-encoder": (
        "is a cross-encoder: it scores pairs of texts and does not compute vectors",
        "use it with --reranker, and a sentence encoder here",
    ),
    "classifier": (
        "is a classifier, not an encoder",
        "use a sentence encoder, or the transformer that it was trained from",
    ),
    "sparse": (
        "is a sparse encoder: its vectors have one number for each token of the vocabulary",
        "use a dense encoder; SparseEncoder of sentence-transformers loads this model",
    ),
    "multi-vector": (
        "is a multi-vector encoder: it computes one vector for each token of a text",
        (
            "use an encoder with one vector per text; MultiVectorEncoder of sentence-transformers loads "
            "this model"
        ),
    ),
    "static": (
        "is a model2vec model without a modules.json",
        "save it with SentenceTransformer(modules=[StaticEmbedding.from_model2vec(NAME)])",
    ),
    "code": (
        "needs its own code (CODE), which sentemb does not execute",
        (
            "use a model whose architecture is part of transformers; or, if you trust the code, pass "
            "SentenceTransformer(NAME, trust_remote_code=True) to sentemb.load_encoder in Python"
        ),
    ),
    "other": ("is of a model type that sentemb does not support", "use a sentence encoder"),
}


def kind_of(source: ModelSource) -> Kind:
    """Return the kind of a model without loading it."""
    saved = source.options.get("model_type", "SentenceTransformer")
    if saved != "SentenceTransformer":
        return _SAVED.get(str(saved), "other")
    for module in source.modules:
        for package, kind in _PACKAGES.items():
            if module.startswith(package):
                return kind
        if not module.startswith(_TRUSTED):
            return "code"
    if source.has_modules:
        return "encoder"
    return _kind_of_transformer(source)


def check_kind(source: ModelSource, wanted: Kind = "encoder") -> None:
    """Raise InputError if a model is of another kind.

    Raises:
        InputError: The message states the kind of the model and where it can be used.
    """
    if (kind := kind_of(source)) != wanted:
        error = refusal(source, kind)
        if wanted == "cross-encoder" and kind != "encoder":
            error = InputError(
                error.message, "use a cross-encoder, which computes one score for a pair of texts"
            )
        raise error


def refusal(source: ModelSource, kind: Kind) -> InputError:
    """Return the error for a model of a kind that cannot be used here."""
    what, hint = _WHAT[kind]
    code = next(
        (one for one in source.modules if not one.startswith(_TRUSTED)), "auto_map in its config.json"
    )
    hint = hint.replace("NAME", f'"{source.address}"')
    return InputError(f"{source.address} {what.replace('CODE', code)}", hint)


@contextmanager
def naming_code(source: ModelSource) -> Iterator[None]:
    """Explain an error by the custom code that a model's configuration names, if it names any.

    Custom code alone is not a reason to reject a model, since newer versions of transformers may include the
    architecture.
    """
    try:
        yield
    except InputError as error:
        if source.config.get("auto_map"):
            raise refusal(source, "code") from error
        raise


def is_decoder(source: ModelSource) -> bool:
    """Return whether each token of a raw transformer sees the tokens before it alone."""
    is_causal = bool(source.config.get("is_causal", True))
    return source.architecture.endswith(("ForCausalLM", "LMHeadModel")) and is_causal


def _kind_of_transformer(source: ModelSource) -> Kind:
    """Return the kind of a folder without modules.json by its architecture."""
    architecture = source.architecture
    if architecture.endswith("ForSequenceClassification"):
        labels = source.config.get("id2label") or {}
        count = source.config.get("num_labels", len(labels) or 2)
        return "cross-encoder" if count == 1 or _is_named(source, "rerank", "cross") else "classifier"
    if "colbert" in architecture.lower() or (Path(source.address) / "artifact.metadata").is_file():
        return "multi-vector"
    if source.config.get("model_type") == "model2vec":
        return "static"
    for name, (ending, kind) in _NAMED.items():
        if architecture.endswith(ending) and _is_named(source, name):
            return kind
    return "encoder"


def _is_named(source: ModelSource, *words: str) -> bool:
    names = f"{Path(source.address).name} {source.config.get('_name_or_path', '')}".lower()
    return any(word in names for word in words)
