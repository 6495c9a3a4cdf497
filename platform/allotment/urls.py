"""Which package answers which address. Each package keeps its own addresses; here they are only mounted."""

from __future__ import annotations

from django.urls import include, path

from foundation import health

urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("i18n/", include("django.conf.urls.i18n")),
]
