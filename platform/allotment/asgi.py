"""ASGI entry point: `uvicorn allotment.asgi:application`. Event streams need it."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

from allotment.startup import load_settings

load_settings()
application = get_asgi_application()
