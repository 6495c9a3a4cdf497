"""A pending job is checked with all other jobs: its page shows what cycles do."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from django.db.models import F
from django.test import Client
from django.utils.html import strip_tags

from foundation.core import clock
from foundation.core.quantities import Resource
from frontend.texts.recommendations import recommendation_sentences
from quotas.models import Queue, Quota
from quotas.models.queue import PreemptWithin
from scheduling import engine
from scheduling.engine import PreemptionResult
from scheduling.engine import model as em
from scheduling.engine_input.config import preview_config
from scheduling.engine_input.preview_time import limit_preview
from scheduling.job_file import parse_job, to_mapping
from scheduling.models import Attempt, Job, JobState
from scheduling.prediction.forecast import forecast_starts
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs import pending_check
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import preview_submission
from scheduling.services.jobs.pending_check import check_pending_job
from scheduling.services.jobs.preview_trial import HelpTrial
from scheduling.services.start_prediction import changed_job
from scheduling.snapshots import cell_snapshot
from tests.builders import jobs, quotas
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def hold(here: World, *cards: int, own: bool = True, node: int = 0, **fields: Any) -> None:
    """Running jobs of so many GPUs on one node, with their quota in the ledger."""
    queue, user = (here.queue, here.editor) if own else (here.other_queue, here.outsider)
    for each in cards:
        job = jobs.job(queue, user, roles=[jobs.RoleOf(cards=each)], **{"preemptible": False, **fields})
        jobs.allocate(job, here.nodes[node])
    for resource, points in ((Resource.GPU_CARDS, 1), (Resource.GPU_CORES, 100)):
        quotas.reserve(queue, here.flavor, resource, points * sum(cards))


def wait(here: World, cards: int, name: str = "waits", **fields: Any) -> Job:
    return jobs.job(here.queue, here.editor, name, roles=[jobs.RoleOf(cards=cards)], **fields)


def check_text(client: Client, job: Job, query: str = "") -> str:
    answer = client.get(f"/w/team-a/jobs/{job.pk}/check{query}")
    assert answer.status_code == 200
    return html.unescape(re.sub(r"<[^>]+>|\s+", " ", answer.content.decode())).replace("  ", " ")


def test_room_is_tried_for_a_job_that_waits_to_borrow(client: Client) -> None:
    here = world()
    hold(here, 4)
    hold(here, 8, own=False, node=1)
    job = wait(here, 8)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    assert job.reason == "WAITING_FOR_BORROWED"
    found = check_pending_job(viewer=here.editor, job=job)
    assert found is not None and found.room is not None
    assert not found.room.tasks, "four of eight GPUs of the node are free"
    client.force_login(here.editor)
    text = check_text(client, job)
    assert "Most free GPUs on one node: 4" in text
    body = client.get(f"/api/v1/workspaces/team-a/jobs/{job.pk}/check").json()
    assert (body["evaluated"], body["starts"], body["reason"]) == (True, False, "WAITING_FOR_BORROWED")
    assert (body["room"]["fits"], body["room"]["tasks"]) == (False, {})
    assert body["help"] == [dict(each) for each in found.help]
    assert "Evaluated after the checks above pass" not in text


def test_victims_that_are_not_enough_are_counted(client: Client) -> None:
    here = world()
    Queue.unscoped.filter(pk=here.queue.pk).update(within_queue=PreemptWithin.LOWER_PRIORITY)
    hold(here, 2, 6, priority=jobs.priority_class("low", -5))
    Job.unscoped.filter(roles__gpu_cards=2).update(preemptible=True)
    hold(here, 8, own=False, node=1)
    job = wait(here, 4)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    found = check_pending_job(viewer=here.editor, job=job)
    assert found is not None and found.preemption is not None
    assert (found.preemption.result, found.preemption.own_jobs, found.preemption.own_amount) == (
        PreemptionResult.NOT_ENOUGH, 1, 2,
    )  # fmt: skip
    client.force_login(here.editor)
    gate = client.get(f"/api/v1/workspaces/team-a/jobs/{job.pk}/check").json()["preemption"]
    assert (gate["outcome"], gate["own_jobs"], gate["own_amount"]) == ("not_enough", 1, 2)
    assert (gate["flavor"], gate["resource"], gate["short"]) == ("a100", "gpu.cards", found.preemption.short)
    text = check_text(client, job)
    assert "1 job of this queue (2 GPUs)" in text and "the job lacks 4 GPUs of a100" in text
    client.force_login(here.outsider)
    assert client.get(f"/w/team-a/jobs/{job.pk}/check").status_code == 404


@pytest.mark.parametrize("ahead", [False, True])
def test_a_recommendation_is_tried_beside_the_jobs_ahead(client: Client, ahead: bool) -> None:
    """Four GPUs of the quota are free; a job ahead that also waits takes them first."""
    here = world()
    hold(here, 4)
    hold(here, 8, own=False, node=1)
    if ahead:
        wait(here, 4, "ahead", priority=jobs.priority_class("high", 5))
    job = wait(here, 6)
    found = check_pending_job(viewer=here.editor, job=job)
    assert found is not None
    fewer = [each["numbers"] for each in found.help if each["code"] == "ASK_FEWER_CARDS"]
    client.force_login(here.editor)
    text = check_text(client, job)
    if ahead:
        assert not fewer and "Try this change" not in text
    else:
        assert [(each["cards"], each["starts"]) for each in fewer] == [(4, 1)]
        assert "Try this change: starts now" in text
    assert not Job.unscoped.exclude(state__in=[JobState.QUEUED, JobState.RUNNING]).exists()
    copy = wait(here, 4, "copy")
    cycle_run(cell_id=here.cell.pk)
    copy.refresh_from_db()
    assert (copy.state == JobState.ADMITTED) is not ahead


def test_more_quota_after_which_the_job_preempts_borrowers_does_not_say_that_it_still_waits(
    client: Client,
) -> None:
    """Neither node is free, and a queue with a nominal quota of one GPU uses five GPUs of one node."""
    here = world()
    Quota.unscoped.filter(node=here.other_queue.node).update(own_nominal=F("own_nominal") / 8)
    hold(here, 4)
    hold(here, 5, own=False, node=1, preemptible=True)
    job = wait(here, 8)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    assert job.reason == "WAITING_FOR_QUOTA"
    client.force_login(here.editor)
    page = client.get(f"/w/team-a/jobs/{job.pk}").content.decode()
    assert "The job still waits afterwards:" not in page
    assert "Without preemption, the job still waits afterwards:" in page
    said = "The job would start afterwards by preempting jobs that borrow (jobs: 1)."
    text = strip_tags(client.get(f"/w/team-a/jobs/{job.pk}/check").content.decode())
    assert said in text, " ".join(text.split())
    spec = parse_job(to_mapping(job))
    draft = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec)
    job.delete()
    seen = preview_submission(draft)
    assert said in strip_tags(" ".join(recommendation_sentences(seen.reason, seen.numbers, seen.help)))
    job = wait(here, 8)
    Quota.unscoped.filter(node=here.queue.node).update(own_nominal=2 * F("own_nominal"))
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    assert job.reason == "WAITING_FOR_PREEMPTED"
    assert Job.unscoped.filter(queue=here.other_queue, state=JobState.EVICTING).count() == 1


def test_a_recommendation_for_a_job_that_no_node_could_hold_is_tried(client: Client) -> None:
    """Each node has eight GPUs, and all are free."""
    here = world()
    job = wait(here, 9)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    assert job.reason == "NEVER_FITS" and job.reason_help
    client.force_login(here.editor)
    page = client.get(f"/w/team-a/jobs/{job.pk}").content.decode()
    assert f'hx-get="/w/team-a/jobs/{job.pk}/check"' in page
    assert "Try this change: starts now" in check_text(client, job)


def test_the_start_after_more_quota_is_estimated_from_what_runs(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more quota the job waits for room, until a job ends; all earlier runs took ten minutes."""
    here = world()
    finished_runs(here.queue, here.editor, [600] * 30, ago=timedelta(days=20), cards=8)
    hold(here, 8)
    hold(here, 8, own=False, node=1)
    Job.unscoped.filter(state=JobState.RUNNING).update(started_at=clock.now() - timedelta(seconds=300))
    Attempt.unscoped.filter(ended_at=None).update(started_at=clock.now() - timedelta(seconds=300))
    job = wait(here, 8, preemptible=False)
    cycle_run(cell_id=here.cell.pk)
    client.force_login(here.editor)
    assert "Estimate starts" in check_text(client, job)
    text = check_text(client, job, "?estimate=1")
    found = check_pending_job(viewer=here.editor, job=job, estimate=True)
    assert found is not None
    (raised,) = (each["numbers"] for each in found.help if each["numbers"].get("resource") == "gpu.cards"
                 and each["code"] == "RAISE_QUOTA")  # fmt: skip
    assert raised["also"] == "NO_ROOM"
    starts = [raised[name] for name in ("likely_from", "expected", "likely_to")]
    assert starts == sorted(starts) and 250 < starts[1] - clock.now().timestamp() < 310
    assert "Request quota: starts about" in text and "50 % range of the start" in text
    monkeypatch.setattr(changed_job, "BUDGET_S", 0.0)
    text = check_text(client, job, "?estimate=1")
    assert "starts about" not in text and "The start was not estimated: out of time." in text


def test_all_estimates_together_end_at_the_deadline_of_the_preview() -> None:
    """Each of four takes a second longer than it was given; two recommendations are of use together only."""
    clock_s, given = [100.0], list[float]()

    class Starts:
        def predict_start(self, _taken: None, _job: None, *, within_s: float) -> None:
            given.append(within_s)
            clock_s[0] += within_s + 1

    class Trial(HelpTrial):
        def apply_helps(self, _helps: Sequence[em.Help]) -> Any:
            return None, None

    config = engine.EngineConfig(stopwatch=lambda: clock_s[0], deadline=106.0)
    trial: Any = Trial.__new__(Trial)
    helps = [em.Help(em.HelpCode.ASK_FEWER_CARDS, {"cards": 2, "starts": 1})]
    helps += [
        em.Help(em.HelpCode.RAISE_QUOTA, {"resource": name, "short": 1, "also": "NO_ROOM"})
        for name in ("gpu.cards", "cpu")
    ]
    helps += [
        em.Help(code, {"tasks": 1, "also": "NO_ROOM"})
        for code in (em.HelpCode.ASK_FEWER_TASKS, em.HelpCode.ASK_LESS, em.HelpCode.WAIT_FOR_RELEASE)
    ]
    found = pending_check._add_expected(helps, trial, cast("Any", Starts()), config)
    assert given == [1.5, pytest.approx(3.5 / 3), pytest.approx(0.6667, abs=0.01)]
    left_out = [each.code for each in found if each.numbers.get("unestimated")]
    assert left_out == [em.HelpCode.WAIT_FOR_RELEASE]
    assert [each.code for each in found] == [each.code for each in helps]


def test_a_job_that_no_new_one_can_be_like_is_checked_without_trials(client: Client) -> None:
    """An older version accepted two volumes with one mount path."""
    here = world()
    hold(here, 8)
    hold(here, 8, own=False, node=1)
    volumes = [{"claim": name, "mount": "/data"} for name in ("one", "two")]
    job = wait(here, 4, volumes=volumes)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    found = check_pending_job(viewer=here.editor, job=job, estimate=True)
    assert found is not None and found.reason == job.reason and found.help
    assert all("tried" not in each["numbers"] for each in found.help)
    client.force_login(here.editor)
    assert "evaluated at" in check_text(client, job)


def test_a_recommendation_is_tried_without_the_same_for_another_role() -> None:
    leader, worker = (em.Help(em.HelpCode.ASK_LESS, {"role": role}) for role in ("leader", "worker"))
    cards, cpu = (em.Help(em.HelpCode.RAISE_QUOTA, {"resource": name}) for name in ("gpu.cards", "cpu"))
    fewer = em.Help(
        em.HelpCode.ASK_FEWER_TASKS, {"role": "worker", "with": em.HelpCode.LOOSEN_PLACEMENT.value}
    )
    rule = em.Help(em.HelpCode.LOOSEN_PLACEMENT, {"with": em.HelpCode.ASK_FEWER_TASKS.value})
    helps = [leader, cards, worker, cpu, rule, fewer]
    for chosen, together in (
        (leader, [leader]), (worker, [worker]), (cards, [cards, cpu]), (cpu, [cards, cpu]),
        (fewer, [rule, fewer]), (rule, [rule, fewer]),
    ):  # fmt: skip
        assert HelpTrial.select_together(chosen, helps) == together


def test_time_in_which_others_use_the_processor_hardly_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the cycles of a preview nor for its estimates."""
    counted: list[float] = []

    def sleep(stopwatch: Callable[[], float]) -> None:
        begun = stopwatch()
        time.sleep(0.4)
        counted.append(stopwatch() - begun)

    def forecast(*_args: Any, stopwatch: Callable[[], float], **_options: Any) -> Any:
        sleep(stopwatch)
        raise engine.DeadlineExceededError

    with limit_preview(60.0):
        config = preview_config()
        assert config.stopwatch is not None and config.deadline == 60.0
        assert config.stopwatch() < 1.0, "its time begins now"
        sleep(config.stopwatch)
        assert preview_config().stopwatch is config.stopwatch, "all cycles of a preview share its time"
    here = world()
    finished_runs(here.queue, here.editor, [600] * 30, ago=timedelta(days=20), cards=8)
    job = wait(here, 8)
    taken = cell_snapshot(here.cell.pk)
    monkeypatch.setattr(changed_job, "forecast_starts", forecast)
    starts = changed_job.ChangedStarts(job, here.cell.pk, clock.now())
    with pytest.raises(engine.DeadlineExceededError):
        starts.predict_start(taken, taken.snapshot.jobs[str(job.pk)], within_s=60.0)
    assert len(counted) == 2 and max(counted) < 0.3


def test_a_forecast_that_reaches_less_far_is_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start beyond a horizon that was cut for lack of time isn't one beyond the usual horizon."""
    here = world()
    finished_runs(here.queue, here.editor, [600] * 30, ago=timedelta(days=20), cards=8)
    hold(here, 8)
    hold(here, 8, own=False, node=1)
    job = wait(here, 8)
    taken = cell_snapshot(here.cell.pk)
    forecast = forecast_starts

    def reach(horizon_s: float) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            found = forecast(*args, **options)
            return replace(found, horizon_s=horizon_s, ranges={})

        return run

    starts = changed_job.ChangedStarts(job, here.cell.pk, clock.now())
    asked = taken.snapshot.jobs[str(job.pk)]
    monkeypatch.setattr(changed_job, "forecast_starts", reach(600.0))
    with pytest.raises(engine.DeadlineExceededError):
        starts.predict_start(taken, asked, within_s=60.0)
    monkeypatch.setattr(changed_job, "forecast_starts", reach(changed_job.OPTIONS.horizon_s))
    assert starts.predict_start(taken, asked, within_s=60.0) is None
