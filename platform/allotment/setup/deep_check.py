"""`allotment doctor --deep`: the objects of the clusters, compared with the database.

All sums are computed here from objects and rows, without the code that places, charges or counts: its faults
must not repeat here. A fault counts if two looks find it, because jobs come and go.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from clusters.backends.base import BackendUnavailable, ClusterBackend
from clusters.backends.registry import BackendMissing, backend_for
from clusters.gpu import hami, nvidia
from clusters.models import Cluster, Device, Node
from foundation.core import clock
from foundation.models.installation import installation_id
from foundation.monitoring.health import CheckResult
from foundation.sql import row_scope
from quotas.models import LedgerEntry
from scheduling.models import TERMINAL_STATES, Allocation, DeviceSlice, Job
from tenants.models import Tenant, TenantKind

Json = Mapping[str, Any]
AGAIN_S: Final = 3.0
_SHOWN: Final = 10
_TIDY_WITHIN: Final = timedelta(minutes=3)  # the time until the remains of an ended job are removed
_DONE: Final = ("Succeeded", "Failed")
_MANAGED: Final = ("app.kubernetes.io/managed-by", "allotment")
_SUFFIXES: Final = {
    "n": "1e-9",
    "u": "1e-6",
    "m": "1e-3",
    **{letter: f"1e{3 * power}" for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": str(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_RUNBOOK: Final = "see docs/backup-and-restore.md, What doctor --deep finds"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; two faults are the same if their texts are equal."""

    check: str
    words: str


@dataclass(frozen=True, slots=True)
class _Look:
    """The faults of one look, and for each check that was made a text about what it covered."""

    looked_at: Mapping[str, str]
    faults: frozenset[Fault]


def deep_checks() -> list[CheckResult]:
    """Return every check of the database and of each cluster; a look that finds a fault is repeated once."""
    with row_scope.whole():
        looks: list[Callable[[], _Look]] = [_compare_sums]
        results = []
        for cluster in Cluster.unscoped.order_by("name"):
            try:
                backend = backend_for(cluster, disowned_too=True)
            except (BackendUnavailable, BackendMissing) as error:
                results.append(_silent(cluster, error))
            else:
                looks.append(_of_cluster(cluster, backend))
        for look in looks:
            try:
                results += _twice(look)
            except BackendUnavailable as error:
                results.append(CheckResult("deep", False, str(error), "does the cluster answer?"))
        return results


def _silent(cluster: Cluster, error: Exception) -> CheckResult:
    return CheckResult(f"{cluster.name}: objects", False, str(error), "does the cluster answer?")


def _of_cluster(cluster: Cluster, backend: ClusterBackend) -> Callable[[], _Look]:
    return lambda: _cluster(cluster, backend)


def _twice(look: Callable[[], _Look]) -> list[CheckResult]:
    first = look()
    found = first.faults
    if found:
        time.sleep(AGAIN_S)
        found = found & look().faults
    return [_result(check, text, found) for check, text in first.looked_at.items()]


def _result(check: str, looked_at: str, faults: Iterable[Fault]) -> CheckResult:
    words = sorted(fault.words for fault in faults if fault.check == check)
    if not words:
        return CheckResult(check, True, looked_at)
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return CheckResult(check, False, f"{len(words)}: {'; '.join(words[:_SHOWN])}{more}", _RUNBOOK)


# The database: sums over the rows of allocations, compared with the sums stored on other rows.


def _compare_sums() -> _Look:
    ledger: Counter[tuple[uuid.UUID, uuid.UUID, str]] = Counter()
    cpu: Counter[uuid.UUID] = Counter()
    memory: Counter[uuid.UUID] = Counter()
    live = Allocation.unscoped.filter(released_at=None).select_related("attempt__job__queue")
    for hold in live:
        for resource, amount in hold.charge.items():
            ledger[hold.attempt.job.queue.node_id, hold.flavor_id, resource] += int(amount)
        cpu[hold.node_id] += hold.cpu_millicores
        memory[hold.node_id] += hold.memory_mib
    cards: defaultdict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    for part in DeviceSlice.unscoped.filter(released=False, allocation__released_at=None):
        cards[part.device_id].update(cores=part.cores, memory=part.memory_mib, holders=1)
    faults = {*_ledger(ledger), *_nodes(cpu, memory), *_cards(cards)}
    return _Look(
        {
            "books: quota": f"{len(ledger)} sums agree",
            "books: nodes": f"{len(cpu)} nodes with holds agree",
            "books: cards": f"{len(cards)} cards with holders agree",
        },
        frozenset(faults),
    )


def _ledger(sums: Counter[tuple[uuid.UUID, uuid.UUID, str]]) -> Iterator[Fault]:
    rows = LedgerEntry.unscoped.select_related("node__queue", "flavor")
    known = {(row.node_id, row.flavor_id, row.resource): row for row in rows}
    for key in sums.keys() | known.keys():
        reserved = known[key].reserved if key in known else 0
        if reserved != sums[key]:
            name = (
                f"{known[key].node} {known[key].flavor} {key[2]}" if key in known else " ".join(map(str, key))
            )
            yield Fault("books: quota", f"{name}: {reserved} booked, {sums[key]} held")


def _nodes(cpu: Counter[uuid.UUID], memory: Counter[uuid.UUID]) -> Iterator[Fault]:
    for node in Node.unscoped.select_related("cluster"):
        for title, recorded, held in (
            ("CPU", node.cpu_granted, cpu[node.pk]),
            ("memory", node.memory_granted, memory[node.pk]),
        ):
            if recorded != held:
                yield Fault("books: nodes", f"{node.cluster}/{node}: {title} {recorded} granted, {held} held")


def _cards(sums: Mapping[uuid.UUID, Counter[str]]) -> Iterator[Fault]:
    for card in Device.unscoped.all():
        held = sums.get(card.pk, Counter())
        recorded = (card.cores_granted, card.memory_granted, card.holders)
        if recorded != (held["cores"], held["memory"], held["holders"]):
            amounts = f"{held['cores']} %, {held['memory']} MiB, {held['holders']} holders"
            yield Fault("books: cards", f"{card.uuid}: granted {recorded}, held {amounts}")


# The cluster: sums over its objects.


def _cluster(cluster: Cluster, backend: ClusterBackend) -> _Look:
    pods = [pod for pod in backend.list_objects("pods") if isinstance(pod, Mapping)]
    nodes = backend.list_objects("nodes")
    name = cluster.name
    faults = {
        *_overcommit(name, nodes, pods),
        *_shared_cards(name, pods),
        *_against_rows(cluster, pods),
        *_leftovers(cluster, backend),
    }
    if not nodes:
        return _Look({f"{name}: objects": "this kind of cluster shows none"}, frozenset())
    bound = sum(1 for pod in pods if _holds(pod))
    looked_at = {
        f"{name}: nodes": f"{bound} pods hold no more than {len(nodes)} nodes have",
        f"{name}: unknown pods": "every pod of the platform is a hold here",
        f"{name}: missing pods": "every hold has its pod",
        f"{name}: wrong nodes": "every pod is on its node",
        f"{name}: left behind": "no job that has ended left anything",
    }
    return _Look(looked_at, frozenset(faults))


def _holds(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in _DONE


def _overcommit(name: str, nodes: Iterable[Json], pods: Iterable[Json]) -> Iterator[Fault]:
    held: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for pod in pods:
        for resource, amount in {**_asked(pod["spec"]), "pods": Decimal(1)}.items() if _holds(pod) else ():
            held[pod["spec"]["nodeName"]][resource] += amount
    for node in nodes:
        there = (node.get("status") or {}).get("allocatable") or {}
        for resource, amount in sorted(held[node["metadata"]["name"]].items()):
            most = _quantity(there.get(resource, "0"))
            if amount > most and (resource in there or resource.startswith(nvidia.PREFIX)):
                words = f"{node['metadata']['name']}: {resource} {amount} of {most}"
                yield Fault(f"{name}: nodes", words)


def _asked(spec: Json) -> dict[str, Decimal]:
    """Return a pod's effective request: the greater of its containers' sum and of each init container."""
    together: dict[str, Decimal] = {}
    for container in spec["containers"]:
        for resource, amount in _of_container(container).items():
            together[resource] = together.get(resource, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _of_container(container).items():
            together[resource] = max(together.get(resource, amount), amount)
    return together


def _of_container(container: Json) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    # HAMi's sizes of parts of cards are in annotations: the requested MiB and percent are no sum of a node.
    return {
        key: _quantity(text)
        for key, text in texts.items()
        if not key.startswith(nvidia.CARD_RESOURCE) or key == nvidia.CARD_RESOURCE
    }


def _quantity(text: Any) -> Decimal:
    """An amount as Kubernetes writes it: 4, 500m, 16Gi, 2k, 1e3."""
    written = str(text)
    number = written.rstrip("numkMGTPEKi")
    return Decimal(number) * Decimal(_SUFFIXES.get(written[len(number) :], "1"))


def _shared_cards(name: str, pods: Iterable[Json]) -> Iterator[Fault]:
    """Find faults in HAMi's annotations on parts of cards: `UUID,type,MiB,percent:`; `;` ends a container."""
    cores: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for pod in pods:
        text = ((pod["metadata"].get("annotations") or {}).get(hami.ALLOCATED)) or ""
        for part in text.replace(";", ":").split(":") if _holds(pod) else ():
            fields = part.split(",")
            if len(fields) >= 4 and fields[2].isdecimal() and fields[3].isdecimal():
                memory[fields[0]] += int(fields[2])
                cores[fields[0]] += int(fields[3])
    most = dict(Device.unscoped.filter(uuid__in=list(cores)).values_list("uuid", "memory_mib"))
    for card in sorted(cores):
        if cores[card] > 100 or memory[card] > most.get(card, memory[card]):
            yield Fault(
                f"{name}: nodes", f"card {card}: {cores[card]} %, {memory[card]} MiB of {most.get(card)}"
            )


def _against_rows(cluster: Cluster, pods: Iterable[Json]) -> Iterator[Fault]:
    ours = [pod for pod in pods if _is_ours(pod)]
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    rows = Allocation.unscoped.filter(node__cluster=cluster, removed_at=None).select_related("node")
    known = {row.pod_uid: row for row in rows if row.ensured_at and row.pod_uid}
    coming = {(row.namespace, row.pod_name) for row in rows if not row.ensured_at}
    for pod in ours:
        place = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if pod["metadata"]["uid"] not in known and place not in coming:
            state = (pod.get("status") or {}).get("phase", "")
            yield Fault(f"{cluster.name}: unknown pods", f"{place[0]}/{place[1]} {state}".strip())
    for uid, row in known.items():
        found = by_uid.get(uid)
        title = f"{row.namespace}/{row.pod_name}"
        if found is None:
            if row.released_at is None:
                yield Fault(f"{cluster.name}: missing pods", title)
        elif found["spec"].get("nodeName", "") not in ("", row.node.name):
            words = f"{title}: on {found['spec']['nodeName']}, held on {row.node.name}"
            yield Fault(f"{cluster.name}: wrong nodes", words)


def _is_ours(item: Json) -> bool:
    labels = item["metadata"].get("labels") or {}
    return (
        labels.get(_MANAGED[0]) == _MANAGED[1] or (item.get("spec") or {}).get("schedulerName") == "allotment"
    )


def _leftovers(cluster: Cluster, backend: ClusterBackend) -> Iterator[Fault]:
    check, lately = f"{cluster.name}: left behind", clock.now() - _TIDY_WITHIN
    found: list[tuple[str, str]] = []
    for kind in ("configmaps", "services"):
        for item in backend.list_objects(kind):
            job = (item["metadata"].get("labels") or {}).get("allotment.io/job", "")
            if job and _is_ours(item):
                found.append((job, f"{kind[:-1]} {item['metadata']['namespace']}/{item['metadata']['name']}"))
    keys = [key for key in map(_key, {job for job, _ in found}) if key is not None]
    live = Job.unscoped.filter(pk__in=keys).exclude(state__in=TERMINAL_STATES, finished_at__lt=lately)
    alive = {str(key) for key in live.values_list("pk", flat=True)}
    yield from (Fault(check, words) for job, words in found if job not in alive)
    spaces = set(Tenant.unscoped.filter(kind=TenantKind.WORKSPACE).values_list("slug", flat=True))
    for item in backend.list_objects("namespaces"):
        labels, name = item["metadata"].get("labels") or {}, item["metadata"]["name"]
        mine = labels.get("allotment.io/installation") == str(installation_id())
        if mine and name not in spaces and name != "allotment":
            yield Fault(check, f"namespace {name}")


def _key(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
