"""What must hold after every fault, by the rows and by the cluster's own word."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from clusters.gpu import hami
from scheduling.models import TERMINAL_STATES, WAITING_STATES, Allocation, Job
from tests.builders.kube_stage import KubeStage
from tests.fixtures.kubelet import Json
from tests.integration.scheduling.books import assert_books, assert_jobs

_ENDED: Final = ("Succeeded", "Failed")
_OVERFULL: Final = ("OutOf", "UnexpectedAdmissionError")


def assert_laws(stage: KubeStage, accepted: set[str]) -> None:
    """Ledger, nodes and cards are the sums of who holds them; nothing was freed that a pod still uses; no
    task has two live pods; no card is above what it has; nothing that was accepted is lost."""
    pods = list(stage.pods().values())
    assert_books()
    assert_jobs()
    _assert_holds(pods)
    _assert_one_pod_each(pods)
    _assert_cards(pods)
    missing = accepted - set(Job.unscoped.values_list("name", flat=True))
    assert not missing, f"accepted and lost: {sorted(missing)}"


def assert_all_told(stage: KubeStage) -> None:
    """Every job has ended, or waits and says why."""
    silent = Job.unscoped.exclude(state__in=TERMINAL_STATES).exclude(state__in=WAITING_STATES)
    assert not silent.exists(), list(silent.values_list("name", "state"))
    waiting = Job.unscoped.filter(state__in=WAITING_STATES)
    for name, reason, at in waiting.values_list("name", "reason", "reason_at"):
        assert reason and reason != "PENDING_EVALUATION" and at, f"{name} waits and does not say why"
    assert not [pod for pod in stage.pods().values() if _live(pod)]


def _live(pod: Json) -> bool:
    """Whether its containers may run, or may come to."""
    return pod["status"].get("phase") not in _ENDED


def _bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _assert_holds(pods: list[Json]) -> None:
    held = set(Allocation.unscoped.filter(released_at__isnull=True).values_list("namespace", "pod_name"))
    names = {_key(pod) for pod in pods if _live(pod) and _bound(pod)}
    assert names <= held, f"freed while its pod was there: {sorted(names - held)}"


def _assert_one_pod_each(pods: list[Json]) -> None:
    attempts = {
        (row.namespace, row.pod_name): row.task_id
        for row in Allocation.unscoped.only("namespace", "pod_name", "task_id")
    }
    live = Counter(attempts.get(_key(pod)) for pod in pods if _live(pod) and _bound(pod))
    assert not [task for task, count in live.items() if count > 1], live


def _assert_cards(pods: list[Json]) -> None:
    cores: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        status = pod["status"]
        text = f"{status.get('reason', '')}"
        assert not text.startswith(_OVERFULL), f"a node was over-filled: {pod['metadata']['name']}: {status}"
        shares = (pod["metadata"].get("annotations") or {}).get(hami.ALLOCATED)
        if shares and _live(pod) and _bound(pod):
            for share in hami.decode_shares(shares)[0]:
                cores[share.uuid] += share.cores
    assert not {card: used for card, used in cores.items() if used > 100}


def _key(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
