"""`/metrics` counts what is there and names no tenant."""

from __future__ import annotations

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from foundation import health, outbox
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_jobs_cards_and_signs_of_life(client: Client) -> None:
    here = world()
    jobs.job(here.queue, here.editor)
    running = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=2)])
    jobs.allocate(running, here.nodes[0])
    outbox.hint(outbox.Topic.CYCLE, here.cell.pk)
    health.beat("worker")

    answer = client.get("/metrics")

    assert answer.status_code == 200
    text = answer.content.decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("allotment_jobs", "queued")] == 1
    assert found[("allotment_jobs", "running")] == 1
    assert found[("allotment_waiting_jobs", "PENDING_EVALUATION")] == 1
    assert found[("allotment_cards", "sim", "a100")] == 16
    assert found[("allotment_cards_allocated", "sim", "a100")] == 2
    assert found[("allotment_outbox_hints",)] == 1
    assert 0 <= found[("allotment_heartbeat_age_seconds", "worker")] < 5
    assert "team-a" not in text
