"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from telemetry.api import agents, efficiency, usage_urls
from telemetry.api.sources import SourcesView, SourceTestView, SourceView
from telemetry.api.views import SeriesFileView, SeriesView

urlpatterns = [
    path("metrics/series", SeriesView.as_view(), name="metrics-series"),
    path("metrics/series/export", SeriesFileView.as_view(), name="metrics-series-export"),
    path("admin/efficiency", efficiency.EfficiencyView.as_view(), name="admin-efficiency"),
    path(
        "workspaces/<slug:ws>/quota/forecast",
        efficiency.WorkspaceForecastView.as_view(),
        name="quota-forecast",
    ),
    path("agent/samples", agents.AgentReportsView.as_view(), name="agent-samples"),
    path("agent/keys", agents.AgentExchangeView.as_view(), name="agent-keys"),
    path("admin/agent-keys", agents.AgentKeysView.as_view(), name="admin-agent-keys"),
    path("admin/agent-keys/<uuid:key>", agents.AgentKeyView.as_view(), name="admin-agent-key"),
    *usage_urls.urlpatterns,
    path("admin/telemetry-sources", SourcesView.as_view(), name="admin-telemetry-sources"),
    path("admin/telemetry-sources/<uuid:source>", SourceView.as_view(), name="admin-telemetry-source"),
    path(
        "admin/telemetry-sources/<uuid:source>/test",
        SourceTestView.as_view(),
        name="admin-telemetry-source-test",
    ),
]
