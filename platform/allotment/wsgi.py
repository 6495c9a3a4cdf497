"""WSGI entry point, for servers without ASGI. Event streams hold a thread each here."""

from __future__ import annotations

from django.core.wsgi import get_wsgi_application

from allotment.startup import load_settings

load_settings()
application = get_wsgi_application()
