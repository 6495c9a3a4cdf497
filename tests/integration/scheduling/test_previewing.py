"""Previews are computed beside the web process, and report it when no process is free."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import yaml
from django.test import Client

from clusters.models import Sharing
from foundation.compute import serving
from foundation.compute.calls import Call
from foundation.compute.pool import NoneFree
from foundation.core.errors import NotFound, PermissionDenied
from foundation.core.quantities import Resource
from foundation.monitoring.outages import DatabaseUnavailable
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
from tenants.access import grants
from tenants.access.grants import bind_to_scopes, remember_grants
from tenants.access.permissions import Permission
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db
ROLE = {"name": "main", "replicas": 1, "resources": {"cpu": 1, "gpu": {"cards": 1}}}
DRAFT = {"tab": "yaml", "yaml": yaml.safe_dump({"name": "asked", "roles": [ROLE]})}


class BusyPool:
    """A pool without a free process; requests get the error `raised`. Records the callers."""

    def __init__(self, raised: Exception) -> None:
        self.raised = raised
        self.users: list[str] = []

    def start_process(self) -> None:
        """There is nothing to start."""

    def run(self, call: Call, *, wait_s: float, user: str = "") -> Any:
        self.users.append(user)
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
    assert len(busy.users) == 6


def test_a_cycle_of_a_preview_runs_in_a_preview_only() -> None:
    with pytest.raises(RuntimeError, match="preview"):
        preview_config()


def test_the_page_of_a_new_job_says_that_the_start_is_unknown(busy: BusyPool, client: Client) -> None:
    here = world()
    client.force_login(here.editor)

    late = client.post(f"/w/{here.workspace.slug}/jobs/new/check", DRAFT)

    assert (late.status_code, b"predicted now" in late.content) == (200, True)
    assert busy.users == [str(here.editor.pk)]


def test_an_outage_beside_the_web_process_is_reported_as_one(busy: BusyPool, client: Client) -> None:
    here = world()
    client.force_login(here.editor)
    busy.raised = DatabaseUnavailable()
    client.raise_request_exception = False

    answer = client.post(f"/w/{here.workspace.slug}/jobs/new/check", DRAFT)

    assert (answer.status_code, b"database" in answer.content) == (503, True)


def test_a_preview_is_bounded_by_the_key_of_the_request() -> None:
    """Each preview that asks for a permission does so where it is computed."""
    here = world()
    waiting = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8)])
    with remember_grants():
        bind_to_scopes(here.editor.pk, [Permission.TENANT_VIEW])
        with pytest.raises(PermissionDenied):
            find_startable(viewer=here.editor, queue=here.queue)
        with pytest.raises((PermissionDenied, NotFound)):
            check_pending_job(viewer=here.editor, job=waiting)
    assert find_startable(viewer=here.editor, queue=here.queue)


def test_grants_are_read_once_in_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    read: list[uuid.UUID] = []
    reader = grants._read
    monkeypatch.setattr(grants, "_read", lambda user_id: read.append(user_id) or reader(user_id))
    assert find_startable(viewer=here.editor, queue=here.queue)
    assert read == [here.editor.pk]
