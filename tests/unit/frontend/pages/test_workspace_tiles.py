"""The tiles of a workspace's overview: the reader's own jobs, notebooks, alerts, and the month."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Final

import pytest
from django.test import Client

from alerts.models import Alert, AlertSeverity, AlertState, Comparison
from clusters.models import Cluster
from foundation.core import clock
from scheduling.models import JobKind, JobState
from telemetry.models import Price
from tenants.models import Tenant
from tests.builders import clusters, jobs
from tests.builders.world import world
from tests.truth.pages.reading import PageText
from tests.unit.frontend.pages.forms import page

pytestmark = pytest.mark.django_db
_NOTEBOOK: Final = {"kind": JobKind.NOTEBOOK}


def fire(
    place: Tenant | None,
    label: str,
    severity: AlertSeverity,
    state: AlertState = AlertState.FIRING,
    cluster: Cluster | None = None,
) -> None:
    """An alert about a workspace, or about a node of a cluster."""
    Alert.unscoped.create(
        tenant=place,
        cluster_id=cluster.pk if cluster else None,
        rule_name="rule",
        metric="job.pending_s",
        comparison=Comparison.ABOVE,
        threshold=1,
        severity=severity,
        subject=label,
        label=label,
        state=state,
        started_at=clock.now(),
        fired_at=clock.now(),
    )


def test_tiles_count_the_readers_jobs_notebooks_and_alerts(client: Client) -> None:
    w, now = world(), clock.now()
    for user, times in ((w.editor, 2), (w.admin, 3)):
        for _ in range(times):
            jobs.job(w.queue, user)
            jobs.job(w.queue, user, state=JobState.FAILED, finished_at=now - timedelta(hours=1))
    jobs.job(w.queue, w.editor, state=JobState.FAILED, finished_at=now - timedelta(hours=25))
    for node in w.nodes:
        jobs.allocate(jobs.job(w.queue, w.admin, **_NOTEBOOK), node)
    jobs.job(w.queue, w.admin, state=JobState.SUSPENDED, **_NOTEBOOK)
    jobs.job(w.queue, w.admin, state=JobState.SUCCEEDED, finished_at=now, **_NOTEBOOK)
    jobs.job(w.other_queue, w.editor, state=JobState.FAILED, finished_at=now)
    fire(w.workspace, "grave", AlertSeverity.CRITICAL)
    fire(w.workspace, "light", AlertSeverity.INFO)
    fire(w.workspace, "past", AlertSeverity.CRITICAL, AlertState.RESOLVED)
    fire(w.other_workspace, "elsewhere", AlertSeverity.CRITICAL)

    client.force_login(w.editor)
    shown = PageText(page(client, "/w/team-a/overview"))
    tiles = shown.tiles()
    assert tiles["Running"] == ("2", "View")
    assert tiles["Pending"][0] == "5"
    assert tiles["Pending"][1].startswith("2 mine · longest")
    assert tiles["Failed in 24 h"] == ("5", "2 mine")
    assert tiles["Running notebooks"] == ("2", "of 3 that have not ended")
    assert tiles["Firing alerts"] == ("2", "Critical 1 · Info 1")
    assert [line.name for line in shown.lines("Alert", "Severity")] == ["grave", "light"]
    assert tiles["Idle GPUs (allocated, > 5 min)"] == ("–", "No data in the last 30 s")


def test_the_overview_of_a_cluster_counts_its_own_alerts(client: Client) -> None:
    w = world()
    for name in ("east", "west"):
        cluster = clusters.cluster(w.cell, name)
        clusters.node(clusters.flavor(cluster), f"{name}-1", cards=1)
        fire(None, f"node of {cluster.name}", AlertSeverity.CRITICAL, cluster=cluster)
    fire(w.workspace, "light", AlertSeverity.INFO)

    client.force_login(w.platform_admin)
    tiles = PageText(page(client, "/ops/overview")).tiles()
    assert tiles["Firing alerts"] == ("3", "Critical 2 · Info 1")
    tiles = PageText(page(client, "/ops/overview?cluster=west")).tiles()
    assert tiles["Firing alerts of the cluster"] == ("1", "Critical 1")
    # Each tile leads to the alerts that it counts.
    fire(None, "not yet", AlertSeverity.INFO, AlertState.PENDING, cluster)
    for address, counted in (
        ("/ops/overview", {"node of east", "node of west", "light"}),
        ("/ops/overview?cluster=west", {"node of west"}),
        ("/w/team-a/overview", {"light"}),
    ):
        link = unescape(re.findall(r'href="(/[^"]*/alerts\?[^"]+)"', page(client, address))[0])
        rows = page(client, f"{link}&format=csv").splitlines()[1:]
        assert {row.split(",")[0] for row in rows} == counted
    (found,) = client.get("/api/v1/admin/alerts", {"filterBy": ["cluster==east"]}).json()["items"]
    assert (found["cluster"], found["subject_name"]) == ("east", "node of east")


def test_the_month_has_its_hours_and_its_cost(client: Client) -> None:
    w, now = world(), clock.now()
    Price.unscoped.create(flavor=w.flavor, effective_at=now - timedelta(days=99), gpu_hour="3.5")
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(cards=4)])
    attempt = jobs.allocate(job, w.nodes[0])
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    hours = (now - start) / timedelta(hours=1)
    type(attempt).unscoped.filter(pk=attempt.pk).update(admitted_at=start)

    client.force_login(w.viewer)
    tiles = PageText(page(client, "/w/team-a/overview")).tiles()
    shown = float(tiles["GPU-hours this month"][0].removesuffix(" h").replace(",", ""))
    assert shown == pytest.approx(4 * hours, abs=0.1)
    (cost,) = [value for label, (value, _words) in tiles.items() if label.startswith("Cost this month (")]
    assert float(cost.replace(",", "")) == pytest.approx(14 * hours, abs=0.2)
