"""Invariants that must hold after every fault, by the rows and by the cluster's own state."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from django.db import connection

from clusters.gpu import hami
from scheduling.models import TERMINAL_STATES, WAITING_STATES, Allocation, DeviceSlice, Job
from tests.builders.kube_stage import KubeStage
from tests.chaos.commit_laws import assert_every_commit_kept_the_laws
from tests.fixtures.agents import Agents
from tests.fixtures.kubelet import Json
from tests.integration.scheduling.books import assert_books, assert_jobs

_ENDED: Final = ("Succeeded", "Failed")
_OVERFULL: Final = ("OutOf", "UnexpectedAdmissionError")
_CARD_MIB: Final = 40_960
Key = tuple[str, str]


class Look:
    """Looks at the cluster again and again. What its nodes do, they do between two looks (`again`)."""

    def __init__(self, stage: KubeStage, agents: Agents) -> None:
        self._stage, self._agents = stage, agents
        self._running: set[Key] = set()

    def again(self) -> None:
        """Note which pods there are, after the nodes have done something; no node was given too much."""
        pods = self._stage.pods().values()
        for pod in pods:
            reason = str(pod["status"].get("reason", ""))
            assert not reason.startswith(_OVERFULL), f"a node was over-filled: {pod['status']}"
        self._running = {_key(pod) for pod in pods if _holds(pod)}

    def assert_laws(self, after: object) -> None:
        """Every commit kept the books; nothing was freed that a pod still uses; no task has two live pods; no
        card is above what it has."""
        assert_every_commit_kept_the_laws(connection)
        pods = [pod for pod in self._stage.pods().values() if _holds(pod)]
        running = {_key(pod) for pod in pods}
        tasks = dict(_tasks(running | self._running))
        freed = (running | self._running) - tasks.keys()
        assert not freed, f"{after}: freed while its pod was there: {sorted(freed)}"
        twice = [task for task, count in Counter(tasks[key] for key in running).items() if count > 1]
        assert not twice, f"{after}: two live pods of tasks {twice}"
        _assert_cards(pods)
        self._assert_limits(pods)
        self._running = running

    def _assert_limits(self, pods: Iterable[Json]) -> None:
        """No pod may use more of a card than is charged for it."""
        held = DeviceSlice.unscoped.filter(allocation__released_at__isnull=True)
        charged = dict(held.values_list("allocation__pod_uid", "memory_mib"))
        for pod in pods:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if uid in charged and self._agents.runs(name, uid):
                (limit,) = self._agents.limits(name)
                assert limit <= charged[uid], f"{name} may use {limit} MiB, charged are {charged[uid]}"

    @staticmethod
    def assert_accepted(accepted: set[str]) -> None:
        """Nothing that was accepted is lost."""
        missing = accepted - set(Job.unscoped.values_list("name", flat=True))
        assert not missing, f"accepted and lost: {sorted(missing)}"


def assert_books_and_jobs() -> None:
    """Every commit, and all rows as they are now."""
    assert_every_commit_kept_the_laws(connection)
    assert_books()
    assert_jobs()


def assert_every_job_has_ended_or_has_a_reason(stage: KubeStage) -> None:
    """Every job has ended, or waits and says why."""
    silent = Job.unscoped.exclude(state__in=TERMINAL_STATES).exclude(state__in=WAITING_STATES)
    assert not silent.exists(), list(silent.values_list("name", "state"))
    waiting = Job.unscoped.filter(state__in=WAITING_STATES)
    for name, reason, at in waiting.values_list("name", "reason", "reason_at"):
        assert reason and reason != "PENDING_EVALUATION" and at, f"{name} waits and does not say why"
    assert not [pod for pod in stage.pods().values() if _holds(pod)]


def _tasks(keys: set[Key]) -> Iterator[tuple[Key, uuid.UUID]]:
    """Yield the task of each pod whose allocation has not been released."""
    held = Allocation.unscoped.filter(released_at__isnull=True, pod_name__in={name for _, name in keys})
    for namespace, name, task in held.values_list("namespace", "pod_name", "task_id"):
        yield (namespace, name), task


def _holds(pod: Json) -> bool:
    """Return whether a pod has a node, and its containers run or may still run."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in _ENDED


def _assert_cards(pods: Iterable[Json]) -> None:
    cores: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for pod in pods:
        shares = (pod["metadata"].get("annotations") or {}).get(hami.ALLOCATED)
        for share in hami.decode_shares(shares)[0] if shares else ():
            cores[share.uuid] += share.cores
            memory[share.uuid] += share.memory_mib
    assert not {card: used for card, used in cores.items() if used > 100}, cores
    assert not {card: used for card, used in memory.items() if used > _CARD_MIB}, memory


def _key(pod: Json) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
