"""Many workers at one simulated cluster. Only PostgreSQL shows whether the row lock holds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
import time_machine
from django.apps import apps
from django.db import connection, connections

from clusters.backends.base import OutcomeKind, PodObservation, PodPhase, TaskRef
from clusters.models import SimulatedPod
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server


@pytest.fixture
def on_postgres(
    postgres_server: PostgresServer, django_db_blocker: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Put a PostgreSQL database of this test alone, with the tables of `clusters`, behind `default`."""
    name = postgres_server.create_database()
    address = {"NAME": name, "HOST": str(postgres_server.socket_folder), "PORT": "5432", "USER": "postgres"}
    usual = connections["default"]
    there = usual.settings_dict | address | {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {}}
    # In the settings too: every thread opens its connection from them.
    monkeypatch.setitem(connections.settings, "default", there)
    connections["default"] = connections.create_connection("default")
    try:
        with django_db_blocker.unblock():
            with connection.schema_editor() as editor:
                for model in apps.get_app_config("clusters").get_models():
                    editor.create_model(model)
            yield
            connection.close()
    finally:
        connections["default"] = usual
        postgres_server.drop_database(name)


@pytest.fixture
def crowd(on_postgres: None, traveller: time_machine.Traveller, make_simulated: Any) -> Iterator[Any]:
    with make_simulated(traveller) as harness:
        yield harness


def together(act: Any, items: list[Any]) -> list[Any]:
    """Call `act` for each item in a thread and on a connection of its own, all at the same moment."""
    start = Barrier(len(items), timeout=30)

    def call(item: Any) -> Any:
        try:
            connection.ensure_connection()
            start.wait()
            return act(item)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(call, items))


def test_one_name_asked_for_by_many_makes_one_pod(crowd: Any) -> None:
    outcomes = together(crowd.backend.ensure_pod, [crowd.spec("a")] * 12)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.DONE}
    assert len({outcome.uid for outcome in outcomes}) == 1
    assert SimulatedPod.unscoped.count() == 1


def test_a_card_is_never_held_twice(crowd: Any) -> None:
    together(crowd.backend.ensure_pod, [crowd.spec(f"p{number}") for number in range(12)])
    assert SimulatedPod.unscoped.filter(holds=True).count() == 1
    assert SimulatedPod.unscoped.filter(reason="OutOfnvidia.com/gpu").count() == 11


def test_changes_are_numbered_once_and_no_observer_misses_one(crowd: Any, traveller: Any) -> None:
    specs = [crowd.spec(f"p{n}", devices=(), cpu_millicores=1, simulate={"run_s": 1}) for n in range(30)]
    seen: dict[str, PodPhase] = {}
    cursor = crowd.cursor

    def act(spec: Any) -> Any:
        crowd.backend.ensure_pod(spec)
        return crowd.backend.observe_pods(cursor)

    together(act, specs)
    traveller.shift(timedelta(seconds=60))
    together(lambda _: crowd.backend.observe_pods(None), list(range(12)))
    together(lambda n: crowd.backend.remove_pod(TaskRef("team", f"p{n}"), 0), list(range(0, 30, 2)))
    while (batch := crowd.backend.observe_pods(cursor)).observations:
        cursor = batch.cursor
        seen |= {pod.ref.name: pod.phase for pod in batch.observations if isinstance(pod, PodObservation)}
    assert len(seen) == 30
    assert {seen[f"p{n}"] for n in range(0, 30, 2)} == {PodPhase.REMOVED}
    assert {seen[f"p{n}"] for n in range(1, 30, 2)} == {PodPhase.SUCCEEDED}
