"""Disable Haystack's telemetry, which it reads on import."""

from __future__ import annotations

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
