"""A browser in which the platform admin of a test is signed in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from playwright.sync_api import Page

from benchmarks.support.deadlines import DEADLINE_FACTOR
from tests.fixtures.browser import page_of


@contextmanager
def signed_in_page(address: str) -> Iterator[Page]:
    """Open a browser at an address, signed in as `boss` of `tests.builders.tenancy.platform_admin`."""
    # Playwright runs a loop in this thread, beside which Django refuses its synchronous database calls.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with page_of(address, soon_ms=20_000 * DEADLINE_FACTOR) as opened:
        _forget_connection()
        opened.goto("/login")
        opened.get_by_label("Username").fill("boss")
        opened.get_by_label("Password").fill("a long password 1")
        opened.get_by_role("button", name="Sign in").click()
        opened.wait_for_url(re.compile("/(w|ops|account|$)"))
        yield opened
        _forget_connection()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def _forget_connection() -> None:
    """Inside the loop there is a connection of its own, which no other test may find."""
    connections["default"].close()
    del connections["default"]
