"""`GET admin/jobs`: the jobs of all workspaces below the caller's roles."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rest_framework.test import APIClient

from foundation.core import clock
from scheduling.models import JobState
from tenants.models import Role
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World

ALL: Final = "/api/v1/admin/jobs"


def names(client: APIClient, query: str = "") -> list[str]:
    answer = client.get(f"{ALL}?{query}")
    assert answer.status_code == 200, answer.content
    return [item["name"] for item in answer.json()["items"]]


def test_jobs_of_all_workspaces_page_by_cursor(w: World, as_user: As) -> None:
    made = [jobs.job(queue, w.editor).name for _ in range(3) for queue in (w.queue, w.other_queue)]
    client = as_user(w.platform_admin)
    for sort in ("-submitted_at", "name", "-priority", "state"):
        seen, cursor = [], ""
        while True:
            page = client.get(f"{ALL}?limit=4&sort={sort}&cursor={cursor}".removesuffix("&cursor=")).json()
            seen += [item["name"] for item in page["items"]]
            assert page["total"] is None
            if page["next"] is None:
                break
            cursor = page["next"]
        assert sorted(seen) == sorted(made) and len(seen) == 6, sort
    assert {item["workspace"] for item in client.get(ALL).json()["items"]} == {"team-a", "team-b"}


def test_filters(w: World, as_user: As) -> None:
    folder = tenancy.folder("vision")
    team = tenancy.workspace("segment", tenancy.folder("vision-deep", folder))
    far = clusters.flavor(clusters.cluster(w.cell, "far"), "h100")
    queue = quotas.queue(w.cell, team, [far], cards=4)
    jobs.job(queue, w.admin, "deep")
    jobs.job(w.other_queue, w.outsider, "beside")
    jobs.job(w.queue, w.editor, "over", state=JobState.SUCCEEDED, finished_at=clock.now())
    client = as_user(w.platform_admin)
    cases = {
        "": {"deep", "beside", "over"},
        "tenant=vision": {"deep"},
        "tenant=segment&state=queued": {"deep"},
        "tenant=root": {"deep", "beside", "over"},
        "tenant=nonsense": set(),
        "cluster=far": {"deep"},
        "flavor=h100": {"deep"},
        "cluster=sim": {"beside"},
        "workspace=team-b": {"beside"},
        "filterBy=workspace!=team-b": {"deep", "over"},
        "filterBy=workspace=^seg": {"deep"},
        "submitted_by=otto": {"beside"},
        "queue=default": {"deep", "beside", "over"},
        "name=ee": {"deep"},
        "state=succeeded": {"over"},
        "mine=true": set(),
        "deleted=true": set(),
    }
    for query, found in cases.items():
        assert set(names(client, query)) == found, query
    for query in ("folder=vision", "filterBy=tenant==vision", "sort=workspace", "cursor=x", "limit=0"):
        assert client.get(f"{ALL}?{query}").status_code == 400, query


def test_a_folder_shows_its_own_jobs_and_members_of_workspaces_are_refused(w: World, as_user: As) -> None:
    vision, speech = tenancy.folder("vision"), tenancy.folder("speech")
    for folder, name in ((vision, "mine"), (speech, "theirs")):
        queue = quotas.queue(w.cell, tenancy.workspace(f"{folder.slug}-1", folder), [w.flavor], cards=1)
        jobs.job(queue, w.editor, name, submitted_at=clock.now() - timedelta(hours=1))
    jobs.job(w.queue, w.editor, "secret")
    lead = as_user(tenancy.user("lea", vision, Role.ADMIN))
    assert names(lead) == names(lead, "tenant=vision") == ["mine"]
    for query in ("tenant=speech", "tenant=root", "workspace=team-a", "name=secret", "tenant=speech-1"):
        assert names(lead, query) == [], query
    for user in (w.viewer, w.admin, w.outsider, tenancy.user("stranger")):
        answer = as_user(user).get(ALL)
        assert answer.status_code == 403 and answer.json()["code"] == "PERMISSION_DENIED"
    assert as_user(None).get(ALL).status_code == 401
