"""A namespace of a workspace under the policies that are shipped, and pods to try there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.pods.pods import MANAGED
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.wait import wait_until

FILE: Final = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes" / "admission.yaml"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
KINDS: Final = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
PODS: Final = "/api/v1/namespaces/victim/pods"
TENANT: Final = ("tenant", ["tenants"])
"""A user with what the cluster roles `view`, `edit` and `admin` give, in this namespace, and more on pods."""
VOID: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
_ROLES: Final = (
    "system:aggregate-to-view",
    "system:aggregate-to-edit",
    "system:aggregate-to-admin",
    "tenant",
)
_PARTS: Final = [
    "pods",
    *(f"pods/{p}" for p in ("binding", "ephemeralcontainers", "resize", "status")),
    "bindings",
]
GOOD: Final[Json] = {
    "metadata": {"name": "mine", "labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "env": [VOID, {"name": "RANK", "value": "0"}],
                "resources": {"limits": {"cpu": "1"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}


def pod(spec: Json | None = None, container: Json | None = None, metadata: Json | None = None) -> Json:
    """A harmless pod with something in it changed."""
    made = copy.deepcopy(GOOD)
    made["spec"].update(spec or {})
    made["spec"]["containers"][0].update(container or {})
    made["metadata"].update(metadata or {})
    return made


def variable(name: str, **source: Any) -> Json:
    """The environment of a harmless container with one variable more."""
    return {"env": [VOID, {"name": name, **(source or {"value": "all"})}]}


def of_kind(kind: str, container: Json) -> Json:
    """The container's fields in an init container, the ordinary one left as it is."""
    made = pod()
    made["spec"][kind] = [copy.deepcopy(GOOD["spec"]["containers"][0]) | {"name": "other"} | container]
    return made


def mounted(path: str) -> Json:
    """A harmless pod with an empty volume at a path."""
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
    return pod(volumes, {"volumeMounts": [{"name": "v", "mountPath": path}]})


def there(cluster: Cluster, path: str, body: Json) -> None:
    """Make an object, unless an earlier round of these tests has left it."""
    status, answer = cluster.answer("POST", path, body)
    assert status in (201, 409), answer


def refused(cluster: Cluster, body: Json, path: str = PODS) -> tuple[int, str]:
    """Return the API's answer to the tenant for a dry run."""
    return cluster.answer("POST", f"{path}?dryRun=All", body, TENANT)


def _is_refused(cluster: Cluster, path: str, body: Json) -> bool:
    status, answer = refused(cluster, body, path)
    return status == 422 and "allotment-" in answer


@contextmanager
def guarded(kube: ControlPlane) -> Iterator[Cluster]:
    """The policies as they are shipped, the platform being the user of `platform_token`, and a tenant."""
    cluster = Cluster(kube)
    text = FILE.read_text(encoding="utf-8").replace(
        "'system:serviceaccount:allotment:allotment'", "'allotment'"
    )
    parts = list(yaml.safe_load_all(text))
    for part in parts:
        cluster.call("POST", KINDS[part["kind"]], part)
    labels = {**MANAGED, "pod-security.kubernetes.io/enforce": "restricted"}
    there(cluster, "/api/v1/namespaces", {"metadata": {"name": "victim", "labels": labels}})
    there(cluster, "/api/v1/namespaces/victim/serviceaccounts", {"metadata": {"name": "default"}})
    there(cluster, "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "n"})
    rules = [
        {"apiGroups": [""], "resources": _PARTS, "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "patch"]},
    ]
    there(cluster, f"{RBAC}/clusterroles", {"metadata": {"name": "tenant"}, "rules": rules})
    for role in _ROLES:
        binding = {
            "metadata": {"name": role.replace(":", "-")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT[0]}],
        }
        there(cluster, f"{RBAC}/clusterrolebindings", binding)
    theft = pod(container=variable("CUDA_DISABLE_CONTROL"))
    # Each policy is enforced from a moment of its own.
    posing = {"metadata": {"name": "posing", "labels": MANAGED}}
    tries = (
        (PODS, theft),
        ("/api/v1/namespaces", posing),
        ("/api/v1/namespaces/victim/resourcequotas", posing),
    )
    for path, body in tries:
        enforced = partial(_is_refused, cluster, path, body)
        wait_until(enforced, f"the policy on {path} is enforced", within_s=30)
    wait_until(lambda: refused(cluster, pod())[0] == 201, "the tenant has its rights", within_s=30)
    try:
        yield cluster
    finally:
        for part in reversed(parts):
            cluster.call("DELETE", f"{KINDS[part['kind']]}/{part['metadata']['name']}", {})
        cluster.clear()
