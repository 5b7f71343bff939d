"""Names of models, and parts of all model cards: the hub's front matter, a table, terms of the base model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._uris import local_path, without_secrets

ENCODER_TAGS = ("sentence-similarity", "feature-extraction")

_BUNDLED = Path(__file__).resolve().parents[1] / "models"


def bundled_names() -> tuple[str, ...]:
    """Return the names of the models that come with the package."""
    return tuple(sorted(path.name for path in _BUNDLED.iterdir() if (path / "config.json").is_file()))


def bundled_folder(name: str) -> Path | None:
    """Find a model that comes with the package."""
    return _BUNDLED / name if name in bundled_names() else None


def public_name(place: str) -> str:
    """Return the name of a model or data set without local folders and without secrets of a URI."""
    path = local_path(place)
    return path.name if path.expanduser().exists() else without_secrets(place)


def front_matter(
    terms: Mapping[str, str],
    *,
    base: str | None = None,
    library: str = "sentence-transformers",
    pipeline: str = "sentence-similarity",
    tags: Sequence[str] = ENCODER_TAGS,
) -> str:
    """Return the YAML that the hub reads at the top of a card; `terms` state the license and language."""
    lines = [f"library_name: {library}", f"pipeline_tag: {pipeline}"]
    # Only a hub id is valid here: the hub cannot link a path or the name of a bundled model.
    if base and not Path(base).exists() and bundled_folder(base) is None:
        lines.append(f"base_model: {base}")
    lines += [f"{name}: {value}" for name, value in terms.items()]
    lines += ["tags:", *(f"- {tag}" for tag in (library, *tags, "sentemb"))]
    return "\n".join(["---", *lines, "---"])


def table(rows: Mapping[str, object]) -> str:
    """Return a table of settings and scores by title; rows of None are skipped."""
    shown = [
        f"| {title} | {str(value).replace('|', chr(92) + '|')} |"
        for title, value in rows.items()
        if value is not None
    ]
    return "\n".join(["| | |", "|---|---|", *shown])


def base_terms(base: str) -> dict[str, str]:
    """Return the license and language that the base model's card states."""
    # The shell's completion of model names imports this file.
    from huggingface_hub import ModelCard, try_to_load_from_cache

    folder = Path(base).expanduser()
    if not folder.is_dir() and (bundled := bundled_folder(base)) is not None:
        folder = bundled
    card: Any = folder / "README.md" if folder.is_dir() else try_to_load_from_cache(base, "README.md")
    if not isinstance(card, str | Path) or not Path(card).is_file():
        return {}
    text = Path(card).read_text(encoding="utf-8")
    if not text.startswith("---"):
        return {}
    stated = ModelCard(text, ignore_metadata_errors=True).data
    terms = {name: getattr(stated, name, None) for name in ("license", "language")}
    return {name: value for name, value in terms.items() if isinstance(value, str)}
