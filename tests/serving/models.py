"""Small models for a server, and a server in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


def cross_encoder(bert: Path, folder: Path) -> Path:
    """Write an untrained cross-encoder of one score."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    config = AutoConfig.from_pretrained(bert, num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def client_of(**settings: Any) -> TestClient:
    """Return a client of the application with these settings; as a context it runs."""
    from fastapi.testclient import TestClient

    from sentemb.serving.app import create_app
    from sentemb.serving.settings import Settings

    return TestClient(create_app(Settings(**settings)), base_url="http://127.0.0.1")
