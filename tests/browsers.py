"""Chromium, for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; where there is none, the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium; on Debian, apt-get install chromium brings one")
    with sync_api.sync_playwright() as playwright:
        # The sandbox of Chromium does not start for root, and the pages are our own.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=0)
        yield started
        started.close()


def open_page(browser: Browser, **options: Any) -> Page:
    """A blank page, of a context with these options, whose actions wait for as long as they must."""
    page = browser.new_page(**options)
    page.set_default_timeout(0)
    return page
