"""No node is ever above its cards, and no job runs twice at one time, whatever happens to platforms.

Workers, cycles, relay and beat are real processes on PostgreSQL, the cluster is a real control plane whose
nodes are simulated by kwok, backups are made by pg_dump and restored by pg_restore. A separate watch checks
the cluster after every change of every pod, by the pods' own limits and nodes; kwok refuses nothing, so a
card that is handed out twice is seen.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from pytest_django import DjangoDbBlocker

from benchmarks.support.control_plane import ControlPlane, running_nodes
from benchmarks.support.postgres import MissingProgram
from tests.fixtures.card_watch import CardWatch
from tests.fixtures.need import need
from tests.fixtures.platforms import Platform
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.valkey import running_valkey
from tests.project.drill import CARDS, NODES, Drill

SECONDS: Final = float(os.environ.get("ALLOTMENT_DRILL", "0"))
SEED: Final = os.environ.get("ALLOTMENT_DRILL_SEED", "1")
pytestmark = [pytest.mark.server, pytest.mark.timeout(300 + 2 * SECONDS)]
_VARIABLES: Final = {"ALLOTMENT_LEASE_S": "2", "ALLOTMENT_OWNER_CONFIRM_S": "2"}


@pytest.fixture
def drill(
    kube: ControlPlane,
    postgres_server: PostgresServer,
    migrated_database: str,
    django_db_blocker: DjangoDbBlocker,
    tmp_path: Path,
) -> Iterator[Drill]:
    with ExitStack() as stack:
        try:
            stack.enter_context(running_nodes(kube))
        except MissingProgram as missing:
            need(missing.name, missing.hint)
        platforms = []
        for name in ("first", "second"):
            broker = stack.enter_context(running_valkey())
            database = postgres_server.create_database(template=migrated_database)
            (tmp_path / name).mkdir()
            made = Platform(
                tmp_path / name, postgres_server, database, broker.url, django_db_blocker, _VARIABLES
            )
            stack.callback(lambda platform=made: postgres_server.drop_database(platform.database))
            stack.callback(made.kill)
            stack.callback(lambda platform=made: print(platform.logs()))
            platforms.append(made)
        made_drill = Drill(kube, *platforms, tmp_path)
        stack.callback(made_drill.api.clear)
        made_drill.begin()
        yield made_drill


@pytest.fixture
def watch(kube: ControlPlane, drill: Drill) -> Iterator[CardWatch]:
    looking = CardWatch(kube, CARDS)
    looking.start()
    yield looking
    looking.end()


def test_no_node_is_above_its_cards_and_no_job_runs_twice(drill: Drill, watch: CardWatch) -> None:
    drill.make_ghost("ghost", NODES[3])
    one, pair = drill.submit(), drill.submit(cards=4, replicas=2)
    for name in (one, pair):
        drill.wait_state(name, "running")
    (pod,) = drill.pods(one)
    drill.remove_labels(pod)
    drill.add_second_name()
    drill.create_late()
    waits = drill.submit()

    def since_the_backup() -> None:
        drill.finish(one)
        drill.wait_state(waits, "running")
        drill.delete_pods(drill.pods(pair)[:1])
        drill.delete_pods(drill.ghosts())
        drill.submit(cards=2)  # the restored database lacks it
        drill.wait_observed()
        drill.wait_state(pair, "running")
        assert drill.states()[pair] == ("running", 2)
        kept.update(drill.uids(waits) | drill.uids(pair))

    kept: set[str] = set()
    drill.restore(since_the_backup)
    for name, attempt in ((waits, 1), (pair, 2)):
        drill.wait_state(name, "running")
        assert drill.states()[name] == ("running", attempt)
    assert kept <= drill.uids(), "what ran since the backup goes on"
    assert drill.unknown()
    assert drill.states()[one][1] in (1, 2), "nothing tells that it has ended"

    def of_the_second() -> None:
        drill.finish(waits)
        theirs = drill.submit(by=drill.second)
        drill.wait_state(theirs, "running", by=drill.second)

    drill.hand_over(forgetful=True, meanwhile=of_the_second)
    drill.wait_state(waits, "succeeded")
    drill.settle()
    assert set(watch.most) == set(NODES)
    print(f"judged {watch.events} states, {watch.lists} lists, most in use {dict(watch.most)}")


@pytest.mark.skipif(not SECONDS, reason="ALLOTMENT_DRILL names for how many seconds")
def test_in_any_order(drill: Drill, watch: CardWatch) -> None:
    dice, until = random.Random(SEED), time.monotonic() + SECONDS
    done: dict[str, int] = {}

    def small_step() -> None:
        steps = {
            "submit": lambda: drill.submit(
                cards=dice.choice((1, 2, 4, 8)), replicas=dice.choice((1, 1, 2, 3))
            ),
            "finish": lambda: drill.finish(_drawn(drill, dice)),
            "delete": lambda: drill.delete_pods(drill.pods(_drawn(drill, dice))[:1]),
            "ghost": lambda: drill.make_ghost(f"ghost-{dice.random()}", _empty_node(drill)),
            "no ghost": lambda: drill.delete_pods(drill.ghosts()[:1]),
            "unlabel": lambda: [drill.remove_labels(pod) for pod in drill.pods()[:1]],
            "lost": lambda: drill.delete_pods(drill.unknown()),
            "look": drill.wait_observed,
        }
        weights = {"submit": 6, "look": 4, "finish": 3}
        names = list(steps)
        (name,) = dice.choices(names, [weights.get(each, 1) for each in names])
        if name != "ghost" or _empty_node(drill):
            steps[name]()
            done[name] = done.get(name, 0) + 1

    def small_steps() -> None:
        for _ in range(dice.randint(1, 6)):
            small_step()

    large = {
        "restore": lambda: drill.restore(small_steps),
        "hand over": lambda: drill.hand_over(
            forgetful=dice.random() < 0.5,
            meanwhile=lambda: (drill.submit(by=drill.second), small_ends(drill, dice)),
        ),
        "late": drill.create_late,
        "second name": drill.add_second_name,
    }
    while time.monotonic() < until:
        small_steps()
        (name,) = dice.choices(list(large), [4, 2, 2, 1])
        large[name]()
        done[name] = done.get(name, 0) + 1
        drill.delete_pods(drill.pods(team="team-b"))
        assert watch.troubles == [], done
    drill.settle()
    print(f"judged {watch.events} states, {watch.lists} lists, steps {done}")


def small_ends(drill: Drill, dice: random.Random) -> None:
    """Change pods while another platform is the owner."""
    for _ in range(dice.randint(1, 3)):
        drill.finish(_drawn(drill, dice))


def _drawn(drill: Drill, dice: random.Random) -> str:
    names = [name for name, (state, _) in drill.states().items() if state == "running"]
    return dice.choice(names) if names else "none"


def _empty_node(drill: Drill) -> str:
    """Return a node without pods, because kubectl and a DaemonSet ignore what is about to be placed there."""
    used = {pod["spec"].get("nodeName") for pod in drill.api.items("/api/v1/pods")}
    return next((name for name in NODES if name not in used), "")
