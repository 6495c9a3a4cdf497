"""The platform's pods on the node, as telemetry needs them: names, containers, allocated shares."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from clusters.gpu import hami
from telemetry.agent.api import Pod

log = logging.getLogger(__name__)
_ENDED: Final = ("Succeeded", "Failed")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_ID_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod. `shares`: the share of each card that each container holds, by container name and uuid.

    `started_at`: the start of each running container, in seconds since 1970.
    """

    uid: str
    namespace: str
    name: str
    shares: Mapping[str, Mapping[str, hami.CardShare]] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    """The names of containers by their id."""
    started_at: Mapping[str, float] = field(default_factory=dict)


def view_pod(pod: Pod) -> PodView | None:
    """Read a pod of the API; None for a pod that has ended or is malformed."""
    metadata, status = _mapping(pod.get("metadata")), _mapping(pod.get("status"))
    uid = metadata.get("uid")
    if not isinstance(uid, str) or not uid or status.get("phase") in _ENDED:
        return None
    containers, started_at = _read_statuses(status)
    return PodView(
        uid,
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        _read_shares(pod),
        containers,
        started_at,
    )


class PodTable:
    """The pods by uid; readers get a dictionary that is replaced, never changed."""

    def __init__(self) -> None:
        self.pods: Mapping[str, PodView] = {}

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """Replace all pods with these."""
        views = [view for pod in pods if (view := view_pod(pod)) is not None]
        self.pods = {view.uid: view for view in views}

    def put_pod(self, pod: Pod) -> None:
        """Add or replace one pod."""
        view = view_pod(pod)
        if view is not None:
            self.pods = {**self.pods, view.uid: view}
        else:
            uid = _mapping(pod.get("metadata")).get("uid")
            self.pods = {key: each for key, each in self.pods.items() if key != uid}


def _read_shares(pod: Pod) -> dict[str, dict[str, hami.CardShare]]:
    annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
    text = annotations.get(hami.ALLOCATED)
    if not isinstance(text, str):
        return {}
    try:
        listed = hami.decode_shares(text)
    except hami.HamiFormatError as error:
        log.warning("%s", error)
        return {}
    spec = _mapping(pod.get("spec"))
    regular = _names(spec.get("containers"))
    # From HAMi 2.9 on the init containers come first; before, they have no entries.
    names = regular if len(listed) <= len(regular) else [*_names(spec.get("initContainers")), *regular]
    return {
        name: {share.uuid: share for share in shares}
        for name, shares in zip(names, listed, strict=False)
        if shares
    }


def _read_statuses(status: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, float]]:
    containers: dict[str, str] = {}
    started_at: dict[str, float] = {}
    for row in (row for key in _STATUSES for row in _rows(status.get(key))):
        name, identity = str(row.get("name", "")), str(row.get("containerID") or "")
        if len(identity) >= _ID_LENGTH:
            containers[identity[-_ID_LENGTH:]] = name
        running = _mapping(_mapping(row.get("state")).get("running"))
        if (seconds := _seconds(running.get("startedAt"))) is not None:
            started_at[name] = seconds
    return containers, started_at


def _names(containers: Any) -> list[str]:
    return [str(row.get("name", "")) for row in _rows(containers)]


def _seconds(text: Any) -> float | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(row) for row in value] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
