"""Description of a model and its kind, read before anything is loaded, so that a user error is one line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from sentemb.errors import InputError
from sentemb.modules.cards import bundled_folder, bundled_names
from sentemb.modules.check import CONFIG, MODULES, OPTIONS, check_folder, read_modules, read_object

Kind = Literal["encoder", "cross-encoder", "classifier", "sparse", "multi-vector", "static", "code", "other"]

_ADAPTER = "adapter_config.json"
_ORGANISATION = "sentence-transformers"  # optional in the names of its models, as in upstream
_MOST_LAYERS = 1_000  # far more than any encoder has; building them would take minutes or all memory

# Kinds by the `model_type` that sentence-transformers saves, and by the packages of the modules it lists.
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
_WHAT: dict[Kind, tuple[str, str]] = {
    "encoder": (
        "is a sentence encoder",
        "use a cross-encoder, or remove --reranker to serve it as an embedding model",
    ),
    "cross-encoder": (
        "is a cross-encoder: it scores pairs of texts and does not compute vectors",
        "use it with --reranker, or evaluate it as rerank:bm25+MODEL; a sentence encoder is needed here",
    ),
    "classifier": (
        "is a classifier, not an encoder",
        "use a sentence encoder, or the transformer that it was trained from",
    ),
    "sparse": (
        "is a sparse encoder: its vectors have one number for each token of the vocabulary",
        "use a dense encoder here; `sentemb eval retrieval` and `sentemb choose` evaluate this model",
    ),
    "multi-vector": (
        "is a multi-vector encoder: it computes one vector for each token of a text",
        (
            "use an encoder with one vector per text here; `sentemb eval retrieval` and `sentemb choose` "
            "evaluate this model"
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


@dataclass(frozen=True)
class ModelSource:
    """Address and configuration of a base model."""

    address: str  # a folder or a hub id that upstream loaders accept
    revision: str | None  # branch, tag or commit of a hub id
    has_modules: bool  # whether it is a sentence-transformers model with its own pooling
    config: dict[str, Any]  # `config.json`; empty if a sentence-transformers model keeps it elsewhere
    options: dict[str, Any] = field(default_factory=dict)  # `config_sentence_transformers.json`
    modules: tuple[str, ...] = ()  # classes in `modules.json`

    @property
    def architecture(self) -> str:
        """The first architecture that `config.json` names, or an empty string."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @property
    def is_decoder(self) -> bool:
        """Return whether each token of a transformer without modules sees the tokens before it alone."""
        is_causal = bool(self.config.get("is_causal", True))
        return self.architecture.endswith(("ForCausalLM", "LMHeadModel")) and is_causal

    @property
    def kind(self) -> Kind:
        """The kind of the model."""
        saved = self.options.get("model_type", "SentenceTransformer")
        if saved != "SentenceTransformer":
            return _SAVED.get(str(saved), "other")
        for module in self.modules:
            kinds = [kind for package, kind in _PACKAGES.items() if module.startswith(package)]
            if kinds or not module.startswith(_TRUSTED):
                return kinds[0] if kinds else "code"
        return "encoder" if self.has_modules else self._kind_of_transformer()

    def _kind_of_transformer(self) -> Kind:
        architecture = self.architecture
        # Only their names state the kind of some models.
        names = f"{Path(self.address).name} {self.config.get('_name_or_path', '')}".lower()
        if architecture.endswith("ForSequenceClassification"):
            labels = self.config.get("id2label") or {}
            count = self.config.get("num_labels", len(labels) or 2)
            return "cross-encoder" if count == 1 or "rerank" in names or "cross" in names else "classifier"
        if "colbert" in architecture.lower() or (Path(self.address) / "artifact.metadata").is_file():
            return "multi-vector"
        if self.config.get("model_type") == "model2vec":
            return "static"
        if architecture.endswith("ForMaskedLM") and "splade" in names:
            return "sparse"
        if architecture.endswith("ForCausalLM") and "rerank" in names:
            return "cross-encoder"
        return "encoder"

    def refusal(self, kind: Kind) -> InputError:
        """Return the error for a model of a kind that cannot be used here."""
        what, hint = _WHAT[kind]
        foreign = [module for module in self.modules if not module.startswith(_TRUSTED)]
        code = foreign[0] if foreign else "auto_map in its config.json"
        return InputError(
            f"{self.address} {what.replace('CODE', code)}", hint.replace("NAME", f'"{self.address}"')
        )


def check_kind(source: ModelSource, wanted: Kind = "encoder") -> None:
    """Raise InputError if a model is of another kind; the message states it and where it can be used."""
    if source.kind == wanted:
        return
    error = source.refusal(source.kind)
    if wanted == "cross-encoder" and source.kind != "encoder":
        hint = "use a cross-encoder, which computes one score for a pair of texts"
        error = InputError(error.message, hint)
    raise error


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
            raise source.refusal("code") from error
        raise


def find_source(base: str, *, revision: str | None = None) -> ModelSource:
    """Describe the model at a folder or a hub id without loading its weights."""
    if base.startswith("endpoint:"):
        raise InputError(
            "an endpoint computes vectors, but does not give its weights",
            "use a folder or a hub id; `sentemb eval` and `sentemb choose` evaluate endpoints",
        )
    path = Path(base).expanduser()
    if not path.exists() and (bundled := bundled_folder(base)) is not None:
        path = bundled
    if path.is_dir() and base.strip():
        return _find_in_folder(base, path)
    if path.is_file():
        raise InputError(f"{base} is a file, not a model folder", "use the folder that contains it")
    if base.startswith((".", "/", "~")) or base.count("/") > 1 or not base.strip():
        raise InputError(f"no such model folder: {base!r}", "check the path, or use a hub id (owner/name)")
    return _find_on_hub(base, revision)


def _find_in_folder(base: str, path: Path) -> ModelSource:
    for entry in (*path.iterdir(), *path.glob("[0-9]*_*/*")):
        if entry.exists() and not entry.is_file() and not entry.is_dir():  # it could be read forever
            raise InputError(
                f"{entry} is a pipe or a device, not a regular file", "use a complete copy of the model"
            )
    source = _described(str(path), None, lambda name: path / name if (path / name).is_file() else None)
    if source is None and (path / _ADAPTER).is_file():
        raise InputError(
            f"{base} is an adapter (LoRA) for another model",
            "merge it into its base with peft (merge_and_unload), and save that model",
        )
    if source is None:
        # One folder below, as in the output of a quickstart or of several seeds.
        inside = ", ".join(sorted(str(found.parent) for found in path.glob(f"*/{MODULES}")))
        raise InputError(
            f"{base} is not a model folder: it contains neither {CONFIG} nor {MODULES}",
            f"use a model inside it: {inside}" if inside else "use the folder that save_pretrained wrote",
        )
    check_folder(path)
    layers = source.config.get("num_hidden_layers")
    if isinstance(layers, int) and layers > _MOST_LAYERS:
        raise InputError(
            f"{path / CONFIG}: num_hidden_layers is {layers:,}", "use a complete copy of the model"
        )
    return source


def _described(address: str, revision: str | None, file: Callable[[str], Path | None]) -> ModelSource | None:
    """Read a model's small files; None where it has neither a configuration nor a list of modules."""
    config, modules = file(CONFIG), file(MODULES)
    if not config and not modules:
        return None
    options = file(OPTIONS)
    return ModelSource(
        address,
        revision,
        has_modules=modules is not None,
        config=read_object(config) if config else {},
        options=read_object(options) if options else {},
        modules=tuple(entry["type"] for entry in read_modules(modules.parent) or ()) if modules else (),
    )


def _find_on_hub(base: str, revision: str | None) -> ModelSource:
    names = [base] if "/" in base else [base, f"{_ORGANISATION}/{base}"]
    unreachable: _UnreachableError | None = None
    for name in names:
        try:
            online = unreachable is None  # do not ask an unreachable hub for the second name
            source = _described(name, revision, partial(_hub_file, name, revision=revision, online=online))
        except RepositoryNotFoundError:
            continue
        except _UnreachableError as error:
            unreachable = error
            continue
        if source is None:
            raise InputError(f"{name} on the hub contains neither {CONFIG} nor {MODULES}", "check the hub id")
        return source
    if unreachable is not None:
        raise InputError(
            f"{base!r} is neither a local folder nor in the hub's cache, and the hub is not reachable",
            f"use a local folder{_or_bundled(base)}, or download the model once while online",
        ) from unreachable
    raise InputError(
        f"model {base!r} not found: it is neither a local folder nor a repository on the hub that you "
        "can access",
        f"check the spelling{_or_bundled(base)}, or log in with `hf auth login` if it is private",
    )


def _or_bundled(base: str) -> str:
    if "/" in base:
        return ""
    close = difflib.get_close_matches(base, bundled_names(), n=1)
    meant = f" (did you mean {close[0]}?)" if close else f" ({', '.join(bundled_names())})"
    return f" or use a bundled model{meant}"


class _UnreachableError(Exception):
    """The hub does not answer, and the file is not cached."""


def _hub_file(name: str, file: str, revision: str | None, *, online: bool = True) -> Path | None:
    try:
        return Path(hf_hub_download(name, file, revision=revision, local_files_only=not online))
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        # Offline, a cached repository without this file does not have it.
        if isinstance(try_to_load_from_cache(name, CONFIG, revision=revision), str):
            return None
        raise _UnreachableError from error
    except GatedRepoError as error:
        raise InputError(
            f"access to {name} is restricted", "request access on its hub page, then run `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise InputError(
            f"{name} does not have a revision {revision!r}", "check the branch, tag or commit"
        ) from error
    except RepositoryNotFoundError:
        raise
    except EntryNotFoundError:
        return None
    except HFValidationError as error:
        raise InputError(
            f"{name!r} is neither a local folder nor a valid hub id", f"check the path{_or_bundled(name)}"
        ) from error
    except HfHubHTTPError as error:
        raise InputError(
            f"the hub rejected the request for {name}: {error}", "try again later, or use a local folder"
        ) from error
