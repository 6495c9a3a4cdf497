"""The page of a job that waits for a volume claim: its gates, and no promise of an estimate."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.utils.html import strip_tags

from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason
from scheduling.models import Job
from scheduling.services.cycle import cycle_run
from tests.builders import jobs, quotas
from tests.builders.predictions import prediction
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db

GATES = [reason for reason in Reason if reason.row.gate not in (Gate.EVALUATION, Gate.CLUSTER)]


def waiting(here: World, reason: Reason) -> Job:
    """A job that the last cycle left with this reason, while the other team has all GPUs of both nodes."""
    for node in here.nodes:
        held = jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        jobs.allocate(held, node)
    quotas.reserve(here.other_queue, here.flavor, Resource.GPU_CARDS, 16)
    job = jobs.job(here.queue, here.editor, "waits", roles=[jobs.RoleOf(cards=8)])
    cycle_run(cell_id=here.cell.pk)
    numbers = {"claim": "data", "missing_claim": "data", "cluster": "c"}
    known = numbers if "CLAIM" in reason else {}
    Job.unscoped.filter(pk=job.pk).update(reason=reason, reason_numbers=known, reason_help=[])
    job.refresh_from_db()
    return job


def gates_of(page: str) -> list[str]:
    """The titles of the gates."""
    lists = re.findall(r'<ul class="checks">.*?</ul>', page, re.DOTALL)
    return [
        title.strip() for each in lists for title in re.findall(r"<b>([^<]*)</b>\s*<span class=.why", each)
    ]


@pytest.mark.parametrize("reason", GATES)
def test_no_gate_appears_twice_once_the_job_is_checked(client: Client, reason: Reason) -> None:
    """Whatever the last cycle found: a claim may have been read since, for example."""
    here = world()
    job = waiting(here, reason)
    client.force_login(here.editor)
    page = client.get(f"/w/team-a/jobs/{job.pk}").content.decode()
    stored, _mark, rest = page.partition('id="later-checks"')
    later = rest.partition("</div>")[0]
    check = client.get(f"/w/team-a/jobs/{job.pk}/check").content.decode()
    before, after = gates_of(stored) + gates_of(later), gates_of(stored) + gates_of(check)
    assert len(before) >= 8 and len(after) >= 7, (before, after)
    assert len(set(before)) == len(before) and len(set(after)) == len(after), (before, after)


def test_a_claim_that_does_not_exist_is_a_gate_of_volumes_and_has_no_expected_start(client: Client) -> None:
    here = world()
    job = waiting(here, Reason.VOLUME_CLAIM_NOT_BOUND)
    prediction(job, clock.now())  # made while the claim existed
    client.force_login(here.editor)
    page = unescape(client.get(f"/w/team-a/jobs/{job.pk}").content.decode())
    assert gates_of(page)[0] == "Volumes" and "Node capacity" not in gates_of(page)
    found = re.search(r'<section class="card" id="expected-start".*?</section>', page, re.DOTALL)
    assert found
    told = strip_tags(found[0])
    assert "Estimates are updated" not in told
    assert "None while a volume claim of the job can't be mounted" in told
