"""The command, as the tests of its verbs have it."""

from __future__ import annotations

from tests.cli.conftest import sentemb as sentemb
