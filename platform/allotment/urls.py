"""The addresses of the packages, mounted here. Each package defines its own addresses."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from allotment.requests.languages import choose_language
from allotment.requests.openapi import SchemaView
from foundation.monitoring import health, metrics

API = "api/v1/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("livez", health.answer_liveness, name="livez"),
    path("readyz", health.answer_readiness, name="readyz"),
    path("readyz/platform", health.platform_readyz, name="readyz-platform"),
    path("metrics", metrics.metrics_view, name="metrics"),
    path("i18n/setlang/", choose_language, name="set_language"),
    path(f"{API}schema", SchemaView.as_view(), name="schema"),
    path(f"{API}docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    # Jobs first: they are requested most, and earlier patterns are compared one by one.
    path(API, include("scheduling.api.urls")),
    path(API, include("tenants.api.urls")),
    path(API, include("clusters.api.urls")),
    path(API, include("quotas.api.urls")),
    path(API, include("telemetry.api.urls")),
    path(API, include("alerts.api.urls")),
    # Without a provider in the settings these return 404.
    path("", include("allauth.socialaccount.providers.openid_connect.urls")),
    path("", include("frontend.urls")),
]

handler400 = "allotment.requests.errors.bad_request"
handler403 = "allotment.requests.errors.permission_denied"
handler404 = "allotment.requests.errors.not_found"
handler500 = "allotment.requests.errors.server_error"
