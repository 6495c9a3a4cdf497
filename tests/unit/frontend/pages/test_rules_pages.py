"""The pages of policies, queues and priorities."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from clusters.models import Cell, Sharing
from frontend.pages.policies.job_policies import limit_label
from quotas.models import Queue, StopPolicy
from scheduling.models import PriorityClass, PriorityGrant, WorkspacePolicy
from scheduling.policy.fields import LIMITED
from tenants.models import Role, User
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import ask_batch, hidden

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def post(client: Client, path: str, status: int = 200, **form: Any) -> str:
    answer = client.post(path, form, follow=True)
    assert answer.status_code == status
    return answer.content.decode()


def test_every_field_that_can_be_limited_has_a_name_for_people() -> None:
    labels = [limit_label(name) for name in LIMITED]
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_a_policy_is_set_seen_where_it_counts_and_removed(w: World) -> None:
    boss, admin = signed_in(w.platform_admin), signed_in(w.admin)
    place = f"/ops/policies/{tenancy.root().pk}"
    form = {"version": "0", "maximum.max_run_s": "3600", "images": "pytorch/*\n", "defaults": "kind: batch"}
    form |= {"allowed": "placement: [topology]"}
    assert "Policy saved." in post(boss, place, **form)
    stored = WorkspacePolicy.unscoped.get()
    assert (stored.maximum, stored.images, stored.defaults) == (
        {"max_run_s": 3600},
        ["pytorch/*"],
        {"kind": "batch"},
    )
    seen = text(admin, "/w/team-a/policy")
    assert "placement: allowed by Root: topology" in seen and stored.allowed == {"placement": ["topology"]}
    assert "3600" in seen and "Allowed by Root: pytorch/*" in seen and "kind: batch" in seen
    assert "3600" in text(admin, f"/ops/policies/{w.workspace.pk}")
    assert "Policy of" in post(boss, place, **hidden(boss, place, do="remove"))
    assert not WorkspacePolicy.unscoped.exists()


def test_a_wrong_policy_is_reported_at_the_field_and_keeps_what_was_typed(w: World) -> None:
    form = {
        "version": "0",
        "maximum.roles.resources.memory": "64",
        "any_image": "on",
        "defaults": "wheels: 4",
    }
    page = post(signed_in(w.admin), f"/ops/policies/{w.workspace.pk}", status=400, **form)
    assert "Specify the memory unit" in page and 'value="64"' in page
    assert "defaults.wheels" in page
    stale = post(
        signed_in(w.admin), f"/ops/policies/{w.workspace.pk}", status=400, version="7", any_image="on"
    )
    assert "The resource changed since you loaded it." in stale


def test_who_may_not_set_a_policy_sees_no_button(w: World) -> None:
    page = text(signed_in(w.viewer), f"/ops/policies/{w.workspace.pk}")
    assert "Save policy" not in page
    text(signed_in(w.outsider), f"/ops/policies/{w.workspace.pk}", status=404)
    post(signed_in(w.viewer), f"/ops/policies/{w.workspace.pk}", status=400, version="0", any_image="on")
    assert not WorkspacePolicy.unscoped.exists()


def test_a_queue_takes_a_preset_and_settings(w: World) -> None:
    admin, place = signed_in(w.admin), "/ops/queues/team-a/default"
    assert "Balanced" in text(admin, "/ops/queues")
    assert "Settings saved" in post(admin, place, preset="deterministic", version="0")
    w.queue.refresh_from_db()
    form = {
        name: getattr(w.queue, name)
        for name in ("strategy", "allocation_mode", "within_queue", "reclaim", "while_borrowing")
    }
    form |= {name: getattr(w.queue, name) for name in ("when_can_borrow", "when_can_preempt", "preference")}
    form |= {"version": str(w.queue.version), "stop_policy": "hold", "flavors": "a100"}
    assert "Settings saved" in post(admin, place, **form)
    w.queue.refresh_from_db()
    assert (w.queue.stop_policy, w.queue.backfill) == (StopPolicy.HOLD, False)
    assert "The resource changed since you loaded it." in post(admin, place, status=400, **form)
    wrong = form | {"version": str(w.queue.version), "flavors": "nothing"}
    assert "Pool not found or ambiguous" in post(admin, place, status=400, **wrong)
    above = form | {"version": str(w.queue.version), "while_borrowing": "any"}
    assert "must be set by a parent admin" in post(admin, place, status=400, **above)
    assert "Save" not in text(signed_in(w.viewer), place)


def test_a_queue_is_opened_on_the_page(w: World) -> None:
    form = {"workspace": "team-a", "name": "night", "flavors": "a100", "preset": "throughput"}
    assert "Queue night created." in post(signed_in(w.admin), "/ops/queues", **form)
    assert Queue.unscoped.filter(name="night", while_borrowing="lower-priority").exists()
    assert "Queue night already exists in workspace" in post(
        signed_in(w.admin), "/ops/queues", status=400, **form
    )
    assert "Create queue" in text(signed_in(w.admin), "/ops/queues")
    assert "Create" not in text(signed_in(w.viewer), "/ops/queues")
    for client, sees in ((signed_in(w.admin), True), (signed_in(w.platform_admin), True)):
        assert ('id="id_preset"' in text(client, "/ops/queues?edit=new")) == sees
        assert '<select name="workspace"' not in text(client, "/ops/queues"), "of every workspace"
    text(signed_in(w.viewer), "/ops/queues?edit=new", status=403)
    refused = post(signed_in(w.viewer), "/ops/queues", status=400, **form | {"name": "more"})
    assert 'id="id_preset"' not in refused and not Queue.unscoped.filter(name="more").exists()
    assert "Team B" not in text(signed_in(w.viewer), "/ops/queues")


def test_classes_and_grants_are_managed(w: World) -> None:
    boss, place = signed_in(w.platform_admin), "/ops/priorities"
    assert "Priority class urgent created" in post(boss, place, do="make", name="urgent", value="50")
    assert "already" in post(boss, place, status=400, do="make", name="urgent", value="50")
    urgent = PriorityClass.unscoped.get(name="urgent")
    assert 'value="50"' in text(boss, f"{place}?edit={urgent.pk}")
    form = {"row": str(urgent.pk), "version": "0"}
    assert "urgent updated." in post(boss, place, do="change", value="60", description="Reviews", **form)
    stale = post(boss, place, status=400, do="change", value="70", **form)
    assert "The resource changed since you loaded it." in stale
    grants = f"{place}/grants"
    assert "urgent (60)" in text(boss, f"{grants}?edit=new")
    grant = {"tenant": str(w.workspace.pk), "priority_class": "urgent"}
    assert "urgent granted to Team A" in post(boss, grants, do="grant", **grant)
    made = PriorityGrant.unscoped.get(priority_class__name="urgent")
    assert "urgent" in text(signed_in(w.admin), grants)
    ask_batch(boss, grants, "revoke", made.pk)
    assert not PriorityGrant.unscoped.exists()
    ask_batch(boss, place, "retire", urgent.pk)
    urgent.refresh_from_db()
    assert urgent.retired_at is not None
    boss.post(place, {"one": f"restore {urgent.pk}"})
    urgent.refresh_from_db()
    assert urgent.retired_at is None and urgent.value == 60


def test_an_admin_of_a_team_changes_no_class_and_grants_nothing_to_it(w: World) -> None:
    jobs.priority_class("high", 100)
    admin = signed_in(w.admin)
    page = text(admin, "/ops/priorities")
    assert "Create priority class" not in page and "edit=" not in page
    assert "edit=new" not in text(admin, "/ops/priorities/grants")
    asked = {"do": "grant", "tenant": str(w.workspace.pk), "priority_class": "high"}
    assert admin.post("/ops/priorities/grants", asked).status_code == 403
    assert not PriorityGrant.unscoped.exists()


def test_a_queue_is_renamed_and_deleted(w: World) -> None:
    admin, place = signed_in(w.admin), "/ops/queues/team-a/default"
    job = jobs.job(w.queue, w.editor, "known")
    late = hidden(admin, place, do="rename")
    said = post(admin, place, **hidden(admin, place, do="rename") | {"name": "primary"})
    assert "Queue renamed to primary" in said
    place = "/ops/queues/team-a/primary"
    said = post(admin, place, **late | {"name": "other"})
    assert (
        "The resource changed since you loaded it." in said
        and "Current name: primary. State: Active." in said
    )
    assert "The queue has 0 running and 1 pending jobs." in post(
        admin, place, **hidden(admin, place, do="delete")
    )
    job.delete()
    assert "Quota returned to the workspace" in post(admin, place, **hidden(admin, place, do="delete"))
    assert "team-a/primary" not in text(admin, "/ops/queues")
    assert "Delete queue" not in text(signed_in(w.viewer), "/ops/queues/team-a/primary", status=404)


def test_the_sharing_of_a_scheduling_domain_is_changed_once_and_confirmed(w: World) -> None:
    boss, place = signed_in(w.platform_admin), "/ops/cells"
    shown = text(boss, place)
    assert "Change sharing of default?" in shown and "The tenant with the lowest share" in shown
    form = hidden(boss, place, cell="default") | {"sharing": "classical"}
    assert "default now uses classical sharing" in post(boss, place, **form)
    assert "The resource changed since you loaded it." in post(boss, place, **form | {"sharing": "fair"})
    assert "Select a kind of sharing." in post(boss, place, **form | {"sharing": "by-lot"})
    w.cell.refresh_from_db()
    assert w.cell.sharing == Sharing.CLASSICAL


def test_who_may_only_view_clusters_sees_the_sharing_and_cannot_change_it(w: World) -> None:
    watcher = signed_in(tenancy.user("watcher", None, Role.PLATFORM_VIEWER))
    assert "Change sharing" not in text(watcher, "/ops/cells")
    assert 'href="/ops/cells"' in text(watcher, "/ops/cells")
    watcher.post("/ops/cells", {"cell": "default", "sharing": "classical", "version": "0"})
    assert Cell.unscoped.get().sharing == Sharing.FAIR
    text(signed_in(w.admin), "/ops/cells", status=403)
