"""WSGI entry point, for servers without ASGI. Each event stream occupies a thread here."""

from __future__ import annotations

from django.core.wsgi import get_wsgi_application

from allotment.processes.startup import load_settings
from foundation.compute.pool import ProcessPool
from foundation.compute.serving import set_pool
from foundation.sql.row_scope import close_by_default

load_settings()
close_by_default()
application = get_wsgi_application()

from scheduling.services.previewing import MODULES  # noqa: E402 (needs the settings)

set_pool(ProcessPool(MODULES))
