"""ASGI entry point: `uvicorn allotment.asgi:application`. Event streams need it."""

from __future__ import annotations

import gc

import django

from allotment.processes.startup import load_settings

load_settings()

from foundation.sql.row_scope import close_by_default  # noqa: E402 (loads structlog, as the settings do first)

close_by_default()
django.setup(set_prefix=False)

from django.urls import get_resolver  # noqa: E402 (reads the settings)

from allotment.requests.web import OneThreadHandler  # noqa: E402 (reads the settings)

_GC_THRESHOLD = 20_000
application = OneThreadHandler()
# Every page is loaded now, not while somebody waits for the first. What is loaded by then stays: a search for
# reference cycles would walk through all of it each time, a tenth of a second in which nobody is answered.
get_resolver().url_patterns  # noqa: B018 (read for what it loads)
gc.freeze()
# A request makes thousands of objects and keeps few: with Python's 700, a large page is searched hundreds of
# times while it is made.
gc.set_threshold(_GC_THRESHOLD, 10, 10)
