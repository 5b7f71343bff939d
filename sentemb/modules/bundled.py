"""Models that come with the package."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1] / "models"


def bundled_names() -> tuple[str, ...]:
    """Return the names of the models that come with the package."""
    return tuple(sorted(path.name for path in _FOLDER.iterdir() if (path / "config.json").is_file()))


def bundled_folder(name: str) -> Path | None:
    """Find a model that comes with the package."""
    return _FOLDER / name if name in bundled_names() else None
