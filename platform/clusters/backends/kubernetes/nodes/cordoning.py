"""Cordons a node as `kubectl cordon` does: sets `spec.unschedulable`, and no other field of the node."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from clusters.backends.base import BackendUnavailable, PodOutcome
from clusters.backends.kubernetes.client.api import KubernetesApi, RequestRefused


def mark_schedulable(api: KubernetesApi, node: str, *, schedulable: bool) -> PodOutcome:
    """Cordon or uncordon a node.

    A refusal is final, also one for missing rights of the platform's account: an operator waits for the
    answer, and can ask again.
    """
    spec: dict[str, Any] = {"unschedulable": None if schedulable else True}
    try:
        api.patch(f"/api/v1/nodes/{quote(node, safe='')}", {"spec": spec})
    except RequestRefused as error:
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))
    return PodOutcome.of_success()
