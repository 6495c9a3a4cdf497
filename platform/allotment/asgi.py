"""ASGI entry point: `uvicorn allotment.asgi:application`. Event streams need it."""

from __future__ import annotations

import django

from allotment.startup import load_settings
from foundation.row_scope import close_by_default

load_settings()
close_by_default()
django.setup(set_prefix=False)

from allotment.web import OneThreadHandler  # noqa: E402 (reads the settings)

application = OneThreadHandler()
