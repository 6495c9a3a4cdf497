"""Fixtures of a scraper, and of processes without counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from foundation.monitoring import counters

TOKEN = "a-token-of-the-scraper"
Found = dict[tuple[str, ...], float]


@pytest.fixture
def nothing_counted(settings: Any) -> Iterator[None]:
    """Clear all counters, and set the token."""
    settings.ALLOTMENT_METRICS_TOKEN = TOKEN
    counters._counted.clear()
    yield
    counters._counted.clear()


@pytest.fixture
def scraped(client: Client) -> Callable[[], Found]:
    """Return a function that scrapes the samples, by name and values of labels."""

    def scrape() -> Found:
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        families = text_string_to_metric_families(answer.content.decode())
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}

    return scrape
