"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from telemetry.api.views import SeriesView

urlpatterns = [path("metrics/series", SeriesView.as_view(), name="metrics-series")]
