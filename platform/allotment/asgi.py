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
from foundation.compute.pool import ProcessPool  # noqa: E402 (stands with the others)
from foundation.compute.serving import set_pool  # noqa: E402 (stands with the others)
from foundation.core.garbage_collection import gc_freeze_loaded, gc_freeze_survivors  # noqa: E402 (stands with the others)
from scheduling.services.previewing import MODULES as PREVIEW_MODULES  # noqa: E402 (stands with the others)

_FULL_COLLECTIONS = 8
"""After so many, nearly all that requests load once is there."""
application = OneThreadHandler()
set_pool(ProcessPool(PREVIEW_MODULES))
# Every page is loaded now, not while somebody waits for the first; what is loaded later would be searched for
# reference cycles again and again, a tenth of a second each in which nobody is answered.
get_resolver().url_patterns  # noqa: B018 (read for what it loads)
gc_freeze_loaded()
gc_freeze_survivors(_FULL_COLLECTIONS)
