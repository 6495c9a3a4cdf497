"""Previews are computed beside the web process, and say so when no process has time for them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.test import Client

from clusters.models import Sharing
from foundation.compute import serving
from foundation.compute.calls import Call
from foundation.compute.pool import NoneFree, Superseded
from foundation.core.quantities import Resource
from quotas.hooks.job_effects import get_provider
from quotas.models import QuotaKey
from quotas.tree import NodeLimits
from scheduling import engine
from scheduling.engine_input.config import preview_config
from scheduling.job_file import parse_job
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import preview_submission
from scheduling.services.jobs.pending_check import check_pending_job
from scheduling.services.jobs.startable import find_startable
from scheduling.services.policy_effect import preview_queue_settings, preview_sharing
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db
ROLE = {"name": "main", "replicas": 1, "resources": {"cpu": 1, "gpu": {"cards": 1}}}


class BusyPool:
    """Has no process free; `raised` is what a request gets for it. Notes the keys."""

    def __init__(self, raised: Exception) -> None:
        self.raised = raised
        self.keys: list[str] = []

    def start(self) -> None:
        """There is nothing to start."""

    def run(self, call: Call, *, wait_s: float, key: str = "") -> Any:
        self.keys.append(key)
        raise self.raised


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> BusyPool:
    """No process is free, and here no cycle may run."""
    pool = BusyPool(NoneFree())
    monkeypatch.setattr(serving._Serving, "pool", pool)
    for name in ("run_cycle", "examine_job"):
        monkeypatch.setattr(engine, name, lambda *_: pytest.fail("a cycle ran in the web process"))
    return pool


def test_every_preview_is_handed_over_and_says_that_it_was_late(busy: BusyPool) -> None:
    here = world()
    waiting = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8)])
    spec = parse_job({"name": "asked", "roles": [ROLE]})
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec)

    assert preview_submission(submission).timed_out
    assert check_pending_job(viewer=here.editor, job=waiting) is None
    (pool,) = find_startable(viewer=here.editor, queue=here.queue)
    assert {(found.tasks, found.reason) for found in pool.jobs} == {(0, "")}
    rows = {QuotaKey(here.queue.node_id, here.flavor.pk, Resource.GPU_CARDS): NodeLimits(own_nominal=0)}
    assert get_provider().preview_change(here.cell.pk, rows, ()).timed_out
    values = {"allocation_mode": "static"}
    assert preview_queue_settings(acting_user=here.admin, queue=here.queue, values=values).timed_out
    sharing = Sharing.CLASSICAL
    assert preview_sharing(acting_user=here.platform_admin, cell=here.cell, sharing=sharing).timed_out
    assert len(busy.keys) == 6


def test_a_cycle_of_a_preview_runs_in_a_preview_only() -> None:
    with pytest.raises(RuntimeError, match="preview"):
        preview_config()


def test_a_page_that_has_asked_anew_is_shown_nothing(busy: BusyPool, client: Client) -> None:
    here = world()
    client.force_login(here.editor)
    address = f"/w/{here.workspace.slug}/jobs/new"
    found = re.search(r'"page": "(\w+)"', client.get(address).content.decode())
    assert found is not None
    draft = {"tab": "yaml", "yaml": yaml.safe_dump({"name": "asked", "roles": [ROLE]}), "page": found[1]}
    late = client.post(f"{address}/check", draft)
    assert (late.status_code, b"predicted in 10" in late.content) == (200, True)

    busy.raised = Superseded()
    answer = client.post(f"{address}/check", draft)

    assert (answer.status_code, answer.content) == (204, b"")
    assert busy.keys == [f"{here.editor.pk} {found[1]}"] * 2
