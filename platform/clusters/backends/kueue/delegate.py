"""Implements the contract with an admission engine in the cluster for Kueue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from clusters.backends.base import BackendUnavailable, OutcomeKind, PodOutcome
from clusters.backends.delegation import (
    DelegatedWorkload,
    Projected,
    Projection,
    WorkloadChanges,
    WorkloadVerdict,
    WorkloadVerdicts,
)
from clusters.backends.kubernetes.client.api import (
    Denied,
    Json,
    KubernetesApi,
    ObjectNameTaken,
    OutcomeUnknown,
    RequestRefused,
)
from clusters.backends.kubernetes.lifecycle import watch
from clusters.backends.kubernetes.namespaces.namespaces import namespace_found
from clusters.backends.kueue import projecting
from clusters.backends.kueue.names import (
    ATTEMPT,
    JOB,
    TITLE,
    VERSION,
    is_ours,
    key_of,
    marked_again,
    object_path,
    owner_labels,
    owner_selector,
)
from clusters.backends.kueue.objects import FLAVORS
from clusters.backends.kueue.workloads import (
    ADMITTED,
    MOST_GROUPS,
    REQUEUED,
    RESERVED,
    build_workload,
    read_verdict,
    shape_of,
)
from foundation.core import clock
from foundation.core.reasons import Reason

log = structlog.get_logger(__name__)
WORKLOADS: Final = "workloads"
_NOT_FOUND, _CONFLICT = 404, 409


class KueueDelegate:
    """The Kueue of one cluster; `owner` is the cluster's id."""

    def __init__(self, api: KubernetesApi, owner: str) -> None:
        self._api, self._owner = api, owner

    def apply_projection(self, wanted: Projection) -> Projected:
        """Repair Cohorts, ClusterQueues, LocalQueues, ResourceFlavors and WorkloadPriorityClasses."""
        return projecting.apply_projection(self._api, self._owner, wanted)

    def shape_of(self, workload: DelegatedWorkload) -> str:
        """Return a digest of what the Workload depends on."""
        return shape_of(workload)

    def create_workload(self, workload: DelegatedWorkload) -> PodOutcome:
        """Create the Workload; its verdict reports the state of an existing one of that name."""
        if len(workload.groups) > MOST_GROUPS:
            return PodOutcome.of_refusal(Reason.NEVER_FITS, f"Kueue takes {MOST_GROUPS} roles at most")
        body, place = (
            build_workload(workload, self._owner, self._api.installation),
            object_path(WORKLOADS, namespace=workload.namespace),
        )

        def create_workload_object() -> Json:
            namespace_found(self._api, workload.namespace, workload.workspace)
            return self._api.create_object(place, body)

        try:
            made = _done(create_workload_object, but=_CONFLICT)
        except ObjectNameTaken as error:
            return PodOutcome.of_refusal(error.code, str(error))
        return self._ours(workload) if made.kind is OutcomeKind.DONE and not made.uid else made

    def _ours(self, workload: DelegatedWorkload) -> PodOutcome:
        """Return whether the existing Workload of that name is one of ours."""
        place = object_path(WORKLOADS, workload.name, workload.namespace)
        found = self._api.get(place)
        if self._own(found) is not None:
            return PodOutcome.of_success(found["metadata"]["uid"])
        return PodOutcome.of_refusal("NAME_TAKEN", f"a Workload {workload.name} exists that is not ours")

    def set_paused(self, verdict: WorkloadVerdict, *, paused: bool) -> PodOutcome:
        """Deactivate or activate the Workload."""
        return _done(lambda: self._api.patch(_place(verdict), {"spec": {"active": not paused}}))

    def give_back(self, verdict: WorkloadVerdict, *, attempt: int) -> PodOutcome:
        """Clear the Workload's admission, as the owner of a job does after the job has stopped.

        In this order: an admission seen under the old number is cleared once more, which has no effect, while
        an old admission under the new number would be taken for a new one.
        """
        metadata = verdict.content["metadata"]
        status: Json = {"admission": None, "conditions": _cleared(verdict.content)}
        guarded = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        numbered = {"metadata": {"annotations": {ATTEMPT: str(attempt)}}}

        def write_status() -> Json:
            self._api.patch(_place(verdict) + "/status", guarded)
            return self._api.patch(_place(verdict), numbered)

        return _done(write_status)

    def delete_workload(self, verdict: WorkloadVerdict) -> PodOutcome:
        """Delete the Workload."""
        options = {"preconditions": {"uid": verdict.content["metadata"]["uid"]}}
        return _done(lambda: self._api.delete(_place(verdict), options), but=_NOT_FOUND)

    def list_verdicts(self) -> WorkloadVerdicts:
        """Return a verdict on every Workload in our queues, after a check that Kueue runs."""
        self._check_controller()
        names = self._names()
        found, version = self._api.list_objects(object_path(WORKLOADS))
        owned = ((item, self._own(item)) for item in found)
        seen = [
            read_verdict(own or item, names, ours=own is not None)
            for item, own in owned
            if own is not None or key_of(item["spec"].get("queueName", ""))
        ]
        return WorkloadVerdicts(seen, version)

    def _own(self, item: Json, job: str = "") -> Json | None:
        """Return the Workload, with our labels, if it is one of ours, even if its labels were removed.

        The labels are not restored: the platform's account may change only objects that carry them.
        """
        if is_ours(item, self._owner):
            return item
        own = marked_again(item, self._owner, self._api.installation, job)
        if own is not None:
            name = f"{own['metadata']['namespace']}/{own['metadata']['name']}"
            log.warning("labels were taken off a workload", cluster=self._api.cluster, name=name)
        return own

    def _still_there(self, change: watch.ObjectChange) -> Json | None:
        """Return the present state of a Workload that a watch no longer selects; None if it was deleted."""
        metadata = change.item["metadata"]
        if not change.removed or metadata.get("deletionTimestamp"):
            return None
        try:
            found = self._api.get(object_path(WORKLOADS, metadata["name"], metadata["namespace"]))
        except RequestRefused as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        if found["metadata"]["uid"] != metadata["uid"]:
            return None
        return self._own(found, metadata["labels"].get(JOB, ""))

    def list_changes(self, cursor: str) -> WorkloadChanges | None:
        """Return our changed Workloads by the API's watch; these are past events, so Kueue need not be
        reachable.
        """
        ours = {"labelSelector": owner_selector(self._owner)}
        try:
            found, version, _ = watch.follow_changes(self._api, object_path(WORKLOADS), ours, cursor)
        except watch.TooOld:
            return None
        names = self._names() if found else {}
        there = [self._still_there(change) if change.removed else change.item for change in found]
        seen = [read_verdict(item, names) for item in there if item is not None]
        removed = {change.item["metadata"]["labels"].get(JOB, "") for change in found if change.removed}
        return WorkloadChanges(
            seen, version, frozenset(removed - {item.job for item in seen})
        )  # it may exist again

    def _names(self) -> dict[str, str]:
        flavors, _ = self._api.list_objects(object_path(FLAVORS), labelSelector=owner_selector(self._owner))
        return {key_of(item["metadata"]["name"]): _title(item) for item in flavors}

    def _check_controller(self) -> None:
        """Send a dry-run request that Kueue's webhook has to validate.

        The API server keeps returning Kueue's last decisions, however long Kueue has been down.
        """
        metadata = {
            "name": f"allotment-heard-{self._owner}",
            "labels": owner_labels(self._owner, self._api.installation),
        }
        body = {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": metadata}
        try:
            self._api.create_object(object_path(FLAVORS) + "?dryRun=All", body)
        except OutcomeUnknown as error:
            raise BackendUnavailable(f"Kueue is unreachable: {error}") from error


def _done(call: Callable[[], Any], *, but: int = 0) -> PodOutcome:
    """Return the outcome of a call; `but` is the status of a refusal that means the same as success."""
    try:
        found = call()
    except Denied as error:
        return PodOutcome.of_unknown(str(error))
    except RequestRefused as error:
        if error.status == but:
            return PodOutcome.of_success()
        if error.status == _CONFLICT:
            return PodOutcome.of_unknown(error.message)  # it has changed since the read
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))
    return PodOutcome.of_success(str((found.get("metadata") or {}).get("uid", "")))


def _place(verdict: WorkloadVerdict) -> str:
    return object_path(WORKLOADS, verdict.name, verdict.namespace)


def _title(item: Json) -> str:
    annotations = item["metadata"].get("annotations") or {}
    return str(annotations.get(TITLE, item["metadata"]["name"]))


def _cleared(found: Json) -> list[Json]:
    """Return the conditions of a Workload that holds no quota any more and waits for admission again."""
    now = f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
    message = "every pod of the job is gone"
    conditions = {
        RESERVED: ("False", "Pending"),
        ADMITTED: ("False", "NoReservation"),
        REQUEUED: ("True", "Requeued"),
    }
    others = [item for item in found["status"]["conditions"] if item["type"] not in conditions]
    return others + [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, (status, reason) in conditions.items()
    ]
