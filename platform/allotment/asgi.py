"""ASGI entry point: `uvicorn allotment.asgi:application`. Event streams need it."""

from __future__ import annotations

import django

from allotment.processes.startup import load_settings

load_settings()

from foundation.sql.row_scope import close_by_default  # noqa: E402 (loads structlog, as the settings do first)

close_by_default()
django.setup(set_prefix=False)

from django.urls import get_resolver  # noqa: E402 (reads the settings)

from allotment.requests.web import OneThreadHandler  # noqa: E402 (reads the settings)
from foundation.compute.pool import ProcessPool  # noqa: E402 (with the other imports)
from foundation.compute.serving import set_pool  # noqa: E402 (with the other imports)
from foundation.core.garbage_collection import gc_freeze_loaded, gc_freeze_survivors  # noqa: E402 (with the other imports)
from scheduling.services.previewing import MODULES as PREVIEW_MODULES  # noqa: E402 (with the other imports)

_FULL_COLLECTIONS = 8
"""After so many full collections, nearly all objects exist that requests load once."""
application = OneThreadHandler()
set_pool(ProcessPool(PREVIEW_MODULES))
# All views are imported now, not during the first request. Objects loaded later are searched for reference
# cycles again and again, and each search stops all requests for a tenth of a second.
get_resolver().url_patterns  # noqa: B018 (read for what it loads)
gc_freeze_loaded()
gc_freeze_survivors(_FULL_COLLECTIONS)
