"""Concurrent requests and begins of simulations, on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from scheduling.models import (
    BackgroundSimulation,
    EstimateSubject,
    PolicyReplay,
    SimulationState,
    StartEstimate,
)
from scheduling.services.simulations.background_run import SimulationRun, run_simulation
from scheduling.services.start_estimate.request import create_estimate
from tests.builders import replays
from tests.builders.world import world
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
AT_ONCE = 6


def together(what: Callable[[int], Any]) -> list[Any]:
    """Six threads at one moment; what each returned."""
    barrier = threading.Barrier(AT_ONCE)

    def one(number: int) -> Any:
        barrier.wait(30)
        try:
            return what(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def test_concurrent_requests_and_begins_leave_one_of_each(on_postgres: PostgresServer) -> None:
    here = world()

    def ask(number: int) -> Any:
        return create_estimate(
            acting_user=here.editor,
            subject=EstimateSubject.DRAFT,
            cell_id=here.cell.pk,
            asked={"number": number},
        ).pk

    made = together(ask)
    estimate = StartEstimate.unscoped.get()
    assert len(set(made)) == AT_ONCE and estimate.pk in made

    replay = replays.replay(here.cell, state=SimulationState.PENDING)
    all_began = threading.Event()
    returned: list[bool] = []

    def begin(number: int) -> bool:
        model: type[BackgroundSimulation] = PolicyReplay if number % 2 else StartEstimate
        done = run_simulation(model, (replay if number % 2 else estimate).pk, wait)
        returned.append(done)
        if len(returned) == AT_ONCE - 1:
            all_began.set()
        return done

    def wait(running: SimulationRun) -> None:
        assert all_began.wait(30), "another one was begun"

    assert sorted(together(begin)) == [False] * (AT_ONCE - 1) + [True]
