"""Output of tasks while they print it: server-sent events over the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import translation
from django.utils.translation import gettext
from rest_framework.test import APIRequestFactory

from clusters.backends.simulated.faults import set_reachable
from clusters.models import Cell, Cluster
from foundation.core.errors import Conflict, NotFound
from scheduling.api.pods import log_stream
from scheduling.models import Job
from scheduling.selectors.pods.log_follow import LogFollower
from scheduling.selectors.pods.logs import LogLine, LogQuery
from scheduling.services.jobs.job import job_cancel
from tenants.models import Member, Role, Tenant, User
from tests.api.conftest import As
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.builders.jobs import RoleOf

LOGS = "/api/v1/workspaces/team-a/jobs/train/logs"


class Ran:
    """A job of two tasks that runs for a minute, while the clock is frozen between two steps."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self.traveller = traveller
        self.cell: Cell = clusters.cell()
        self.cluster: Cluster
        self.cluster, flavor = pipeline.simulated_cluster(self.cell)
        self.place: Tenant = tenancy.workspace("team-a")
        queue = quotas.queue(self.cell, self.place, [flavor], cards=8)
        self.user: User = tenancy.user("ed", self.place, Role.EDITOR)
        roles = [RoleOf(name="worker", replicas=2)]
        self.job: Job = jobs.job(queue, self.user, "train", roles=roles, simulate={"run_s": 60})

    def step(self) -> None:
        self.traveller.shift(timedelta(seconds=10))
        pipeline.step(self.cell, self.cluster)

    def looks(self, **query: Any) -> Iterator[list[LogLine]]:
        """Yield the lines of each poll until the stream is over."""
        follower = LogFollower(self.job.pk, LogQuery(**query))
        for _ in range(40):
            news = follower.poll_lines(viewer=self.user, workspace=self.place)
            yield news.lines
            if news.over:
                return
            self.step()
        raise AssertionError("there is no end")


@pytest.fixture
def ran(db: None) -> Iterator[Ran]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        yield Ran(traveller)


def test_lines_come_once_in_order_until_the_last_pod_has_ended(ran: Ran) -> None:
    looks = list(ran.looks())
    assert looks[0] == [], "nothing is printed before the start"
    assert len([lines for lines in looks if lines]) > 3, "they come bit by bit"
    for task in ("worker-0", "worker-1"):
        own = [line for lines in looks for line in lines if line.task == task]
        assert own[0].text.startswith("starting")
        assert own[-1].text == "done"
        times = [line.at for line in own]
        assert times == sorted({at for at in times if at is not None})


def test_one_task_and_only_what_comes_after_a_time(ran: Ran) -> None:
    for _ in range(4):
        ran.step()
    since = datetime(2026, 11, 2, 8, 0, 40, tzinfo=UTC)
    lines = [line for lines in ran.looks(task="worker-1", since=since) for line in lines]
    assert {line.task for line in lines} == {"worker-1"}
    assert all(line.at is not None and line.at > since for line in lines)
    assert lines[-1].text == "done"


def test_of_an_attempt_that_is_over_nothing_more_is_to_come(ran: Ran, as_user: As) -> None:
    ran.step()
    ran.step()
    assert list(ran.looks(previous=True)) == [[]], "there is none before the first"
    Job.unscoped.filter(pk=ran.job.pk).update(attempt_number=2)
    (lines,) = ran.looks(attempt=1)
    assert [lines] == list(ran.looks(previous=True))
    told = as_user(ran.user).get(LOGS, {"previous": "true"}).json()["items"]
    assert [line["text"] for line in told] == [line.text for line in lines]


def test_a_job_that_is_cancelled_has_an_end(ran: Ran) -> None:
    ran.step()
    job_cancel(acting_user=ran.user, job=Job.unscoped.get(pk=ran.job.pk))
    assert list(ran.looks())


def test_a_lost_right_or_cluster_is_reported_at_the_end_of_the_stream(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran.step()
    ran.step()
    monkeypatch.setattr(log_stream, "signed_in_still", lambda request: User.objects.get(pk=ran.user.pk))
    follower = LogFollower(ran.job.pk, LogQuery())
    reader = log_stream.Reader(APIRequestFactory().get(LOGS), ran.user.pk, "team-a", follower)
    text, over = reader.poll_text()
    assert not over
    message = text.split("\n\n")[0].split("\n")
    assert message[0] == "event: line"
    assert json.loads(message[1].removeprefix("data: "))["task"] in ("worker-0", "worker-1")  # either
    set_reachable(ran.cluster.pk, False)
    with pytest.raises(Conflict) as away:
        reader.poll_text()
    assert away.value.code == "CLUSTER_UNREACHABLE"
    Member.unscoped.filter(user=ran.user).delete()
    with pytest.raises(NotFound):
        reader.poll_text()


def test_the_request_begins_a_stream_and_too_many_are_refused(
    ran: Ran, as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = as_user(ran.user)
    assert client.get(LOGS, {"follow": "true"})["Content-Type"].startswith("text/event-stream")
    other = tenancy.user("eve", tenancy.workspace("team-b"), Role.EDITOR)
    assert as_user(other).get(LOGS, {"follow": "true"}).status_code == 404
    monkeypatch.setitem(log_stream.Reader.opened, ran.user.pk, log_stream.Reader.open_max)
    refused = as_user(ran.user).get(LOGS, {"follow": "true"})
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_STREAMS")


class ScriptedReader(log_stream.Reader):
    """A stream with given polls."""

    def __init__(self, caller: User, *looks: tuple[str, bool] | Exception) -> None:
        super().__init__(
            APIRequestFactory().get(LOGS), caller.pk, "team-a", LogFollower(caller.pk, LogQuery())
        )
        self.looks = list(looks)

    def poll_text(self) -> tuple[str, bool]:
        found = self.looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def read(self) -> list[str]:
        async def all_of_it() -> list[str]:
            return [piece async for piece in self.stream_text()]

        return asyncio.run(all_of_it())


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (("b", True), "ENDED"),
        (NotFound(), "NOT_FOUND"),
        (Conflict(code="CLUSTER_UNREACHABLE"), "CLUSTER_UNREACHABLE"),
    ],
)
def test_a_stream_says_why_it_ends(last: Any, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream.Reader, "look_every_s", 0.0)
    pieces = ScriptedReader(User(username="ed"), ("a", False), ("", False), last).read()
    assert pieces[0] == "a"
    assert pieces[-1].startswith("event: end\ndata: ")
    assert json.loads(pieces[-1].split("data: ")[1])["code"] == code
    assert ("b" in pieces) == (code == "ENDED")


def test_the_reason_of_the_end_is_in_the_language_of_the_request() -> None:
    class Away(ScriptedReader):
        def poll_text(self) -> tuple[str, bool]:
            raise Conflict(gettext("Your access has been removed."), code="ACCESS_LOST")

    with translation.override("zh-hans"):
        away = Away(User(username="ed"))
    told = json.loads(away.read()[-1].split("data: ")[1])
    assert told == {"code": "ACCESS_LOST", "detail": "您的访问权限已被移除。"}


def test_a_stream_ends_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream.Reader, "longest_s", -1.0)
    assert "RECONNECT" in "".join(ScriptedReader(User(username="ed")).read())


def test_a_stream_counts_until_its_reader_leaves() -> None:
    user = User(username="ed")

    async def leave() -> tuple[int, int]:
        pieces = ScriptedReader(user, ("a", False)).stream_text()
        await anext(pieces)
        during = log_stream.Reader.opened[user.pk]
        await pieces.aclose()  # as the server does when the reader disconnects
        return during, log_stream.Reader.opened[user.pk]

    assert asyncio.run(leave()) == (1, 0)
