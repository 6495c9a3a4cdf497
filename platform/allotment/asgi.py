"""ASGI entry point: `uvicorn allotment.asgi:application`. Event streams need it."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

from allotment.startup import load_settings
from foundation.row_scope import close_by_default

load_settings()
close_by_default()
application = get_asgi_application()
