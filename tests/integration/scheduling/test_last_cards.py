"""Simultaneous submissions to a served API: no card is given twice, and no key creates two jobs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest
from django.db import connection, transaction

from quotas.models import LedgerEntry
from scheduling.models import HOLDING_STATES, Allocation, Job, JobState
from scheduling.services.cycle import cycle_run
from tests.builders import jobs, pipeline, tenancy
from tests.builders.stage import Stage
from tests.fixtures.api_server import api_server
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.server
CROWD: Final = 64
FREE: Final = 8
WITHIN_S: Final = 120.0


@pytest.fixture
def stage(on_postgres: PostgresServer) -> Stage:
    """Return a stage with sixteen cards, eight of them taken."""
    made = Stage()
    made.submit("first", jobs.RoleOf(replicas=8), run_s=3600)
    pipeline.step(made.cell, made.cluster)
    assert Allocation.unscoped.filter(released_at__isnull=True).count() == 16 - FREE
    return made


@pytest.fixture
def post(on_postgres: PostgresServer, stage: Stage) -> Iterator[Callable[..., httpx.Response]]:
    """Yield a function that submits one job to a real server, from any thread."""
    token = tenancy.access_key(stage.user)
    limits = httpx.Limits(max_connections=CROWD)
    with api_server(on_postgres) as address, httpx.Client(timeout=WITHIN_S, limits=limits) as client:

        def send(name: str, **headers: str) -> httpx.Response:
            body = {
                "name": name,
                "roles": [{"resources": {"gpu": {"cards": 1}}}],
                "simulate": {"run_s": 3600},
            }
            sent = {"Authorization": f"Bearer {token}", **headers}
            return client.post(f"{address}/api/v1/workspaces/team-a/jobs", json=body, headers=sent)

        yield send


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Return the answers of `count` threads that begin together."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait(WITHIN_S)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@contextmanager
def meanwhile(*acts: Callable[[], None]) -> Iterator[None]:
    """Repeat each act, in a thread of its own, for as long as the block takes."""
    over = threading.Event()

    def keep(act: Callable[[], None]) -> None:
        try:
            while not over.is_set():
                act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        running = [pool.submit(keep, act) for act in acts]
        try:
            yield
        finally:
            over.set()
        for each in running:
            each.result(WITHIN_S)


def compare_ledger() -> None:
    """Compare, in one snapshot of the database, the ledger with the charges of the holders."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        held = Allocation.unscoped.filter(released_at__isnull=True)
        wanted: Counter[tuple[Any, Any, str]] = Counter()
        charges = held.values_list("attempt__job__queue__node_id", "flavor_id", "charge")
        for node, flavor, charge in charges:
            wanted.update({(node, flavor, name): amount for name, amount in charge.items() if amount})
        rows = LedgerEntry.unscoped.values_list("node_id", "flavor_id", "resource", "reserved")
        found = {(node, flavor, name): used for node, flavor, name, used in rows if used}
    assert found == dict(wanted)


def test_sixty_four_ask_for_the_last_eight_cards(stage: Stage, post: Callable[..., httpx.Response]) -> None:
    def cycles() -> None:
        cycle_run(cell_id=stage.cell.pk)

    # Two workers that compete for the cell, and a reader that compares the sums all the time.
    with meanwhile(cycles, cycles, compare_ledger):
        answers = at_once(CROWD, lambda number: post(f"rush-{number}"))
        assert {answer.status_code for answer in answers} == {202}
        undecided = Job.unscoped.filter(state=JobState.QUEUED, reason="PENDING_EVALUATION")
        wait_until(lambda: not undecided.exists(), "every job was looked at", within_s=WITHIN_S)

    rush = Job.unscoped.filter(name__startswith="rush-")
    assert rush.count() == CROWD
    assert rush.filter(state__in=HOLDING_STATES).count() == FREE
    assert rush.filter(state=JobState.QUEUED).count() == CROWD - FREE
    assert LedgerEntry.unscoped.get(node=stage.queue.node, resource="gpu.cards").reserved == 16
    assert_books()
    assert_jobs()


def test_one_key_twenty_times_at_once_is_one_job(stage: Stage, post: Callable[..., httpx.Response]) -> None:
    def insist(_: int) -> str:
        """Repeat the request while the first one still runs, as its answer says."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            answer = post("once", **{"Idempotency-Key": "the-same"})
            if answer.status_code == 202:
                return str(answer.json()["id"])
            assert answer.json()["code"] == "IDEMPOTENCY_KEY_IN_USE", answer.text
        raise AssertionError("never answered")

    assert len(set(at_once(20, insist))) == 1
    assert Job.unscoped.filter(name="once").count() == 1
