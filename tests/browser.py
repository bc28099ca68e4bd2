"""A real Chromium for tests: the system's, else Playwright's own, else a loud skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "NO BROWSER TEST WAS RUN: no Chromium found. Run `apt-get install chromium` or `playwright install chromium`"


@contextmanager
def launch() -> Iterator[Browser]:
    """A headless Chromium. Skips the test where there is none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_executable(playwright), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


def _executable(playwright: Playwright) -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(found).exists():
        pytest.skip(MISSING)
    return found


# Not for the whole run: while Playwright's sync API is open, `asyncio.run` fails in every other test of the process.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as browser:
        yield browser
