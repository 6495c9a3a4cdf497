"""A browser in which the platform admin of a test is signed in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from django.db import connections
from playwright.sync_api import Page

from benchmarks.support.deadlines import DEADLINE_FACTOR
from tests.fixtures.browser import chromium, new_page

_SOON_MS: Final = 20_000 * DEADLINE_FACTOR
OpenPage = Callable[[], AbstractContextManager[Page]]


@contextmanager
def signed_in_page(address: str) -> Iterator[Page]:
    """Open a browser at an address, signed in as `boss` of `tests.builders.tenancy.platform_admin`."""
    with signed_in_browser(address) as open_page, open_page() as opened:
        yield opened


@contextmanager
def signed_in_browser(address: str) -> Iterator[OpenPage]:
    """Sign in as `signed_in_page` does, once for many pages; they share nothing but the session."""
    # Playwright runs a loop in this thread, beside which Django refuses its synchronous database calls.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with chromium() as browser:
        _forget_connection()
        first = new_page(browser, address, soon_ms=_SOON_MS)
        first.goto("/login")
        first.get_by_label("Username").fill("boss")
        first.get_by_label("Password").fill("a long password 1")
        first.get_by_role("button", name="Sign in").click()
        first.wait_for_url(re.compile("/(w|ops|account|$)"))
        state = first.context.storage_state()
        first.context.close()

        @contextmanager
        def open_page() -> Iterator[Page]:
            opened = new_page(browser, address, soon_ms=_SOON_MS, state=state)
            yield opened
            opened.context.close()

        yield open_page
        _forget_connection()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def _forget_connection() -> None:
    """Inside the loop there is a connection of its own, which no other test may find."""
    connections["default"].close()
    del connections["default"]
