"""The check that a service account token is that of the node agent on a certain node.

A token alone does not prove it: it could be a copy from another node. The token is bound to a pod, by name
and uid, and the pod names its node.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.backends.kubernetes.client.api import Denied, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.pods import pods

AUDIENCE: Final = "allotment"
"""The audience of the token, so that a token for the API server itself is not accepted here."""
NAMESPACE, ACCOUNT = "allotment", "allotment-agent"
_USERNAME: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_POD: Final = "authentication.kubernetes.io/pod-"


def verify_agent(api: KubernetesApi, token: str, node: str) -> bool:
    """Implement `ClusterBackend.verify_agent` by a TokenReview."""
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    status = api.create_object(_REVIEWS, review).get("status") or {}
    user = status.get("user") or {}
    accepted = status.get("authenticated") is True and AUDIENCE in (status.get("audiences") or [])
    if not accepted or user.get("username") != _USERNAME:
        return False
    extra = user.get("extra") or {}
    name, uid = _single(extra, "name"), _single(extra, "uid")
    if not name or not uid:
        return False
    try:
        pod = api.get(pods.pod_path(NAMESPACE, name))
    except Denied:
        raise
    except RequestRefused:
        return False
    bound = (pod.get("spec") or {}).get("nodeName")
    return bool((pod.get("metadata") or {}).get("uid") == uid and bound == node)


def _single(extra: dict[str, Any], part: str) -> str:
    values = extra.get(_POD + part) or []
    return str(values[0]) if len(values) == 1 else ""
