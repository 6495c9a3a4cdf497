"""The permissions that the platform's account needs in a Kubernetes cluster.

They are those of `deploy/kubernetes/access.yaml`, which a test compares with this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from clusters.backends.kubernetes.client.api import Denied, Json, KubernetesApi

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RULES: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
# Of a namespace that does not exist the API server lists the rules of cluster roles alone.
_NO_NAMESPACE: Final = "allotment-no-namespace"


class AccessRule(NamedTuple):
    """Verbs on a resource (`pods/log` is a subresource) of an API group, of one object if it has a name."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""


PLATFORM_RULES: Final = (
    AccessRule("", "nodes", ("get", "list", "watch", "patch")),
    AccessRule("", "pods", ("get", "list", "watch", "create", "patch", "delete")),
    AccessRule("", "pods/binding", ("create",)),
    AccessRule("", "pods/log", ("get",)),
    AccessRule("", "events", ("list",)),
    AccessRule("", "configmaps", ("get", "list", "create", "patch", "delete")),
    AccessRule("", "services", ("get", "list", "create")),
    AccessRule("", "namespaces", ("get", "list", "create", "patch")),
    AccessRule("", "serviceaccounts", ("list", "create")),
    AccessRule("", "serviceaccounts", ("get", "patch"), "allotment-task"),
    AccessRule("", "resourcequotas", ("list", "create")),
    AccessRule("", "resourcequotas", ("get", "patch"), "allotment"),
    AccessRule("networking.k8s.io", "networkpolicies", ("list", "create")),
    AccessRule("networking.k8s.io", "networkpolicies", ("get", "patch"), "allotment"),
    AccessRule("", "persistentvolumeclaims", ("list", "patch")),
    AccessRule("", "persistentvolumes", ("get",)),
    AccessRule("storage.k8s.io", "storageclasses", ("list",)),
    AccessRule("authentication.k8s.io", "tokenreviews", ("create",)),
    AccessRule("authorization.k8s.io", "selfsubjectaccessreviews", ("create",)),
)


def find_missing_permissions(api: KubernetesApi, rules: Iterable[AccessRule]) -> tuple[str, ...] | None:
    """Return the permissions that the account lacks, as `patch persistentvolumeclaims`; None if the cluster
    does not let it ask.

    One request lists the account's rules; what they do not contain is asked for itself, because another
    authorizer than RBAC may allow it.

    Raises:
        BackendUnavailable: when a request is not answered.
    """
    try:
        known = _account_rules(api)
        return tuple(sorted(text for rule in rules for text in _missing_of(api, rule, known)))
    except Denied:
        return None


def is_allowed(api: KubernetesApi, verb: str, rule: AccessRule, namespace: str = "") -> bool:
    """Return whether the account may use a verb of a rule in a namespace, by default in all of them.

    Raises:
        Denied: when the account may not ask.
        BackendUnavailable: when the request is not answered.
    """
    resource, _, subresource = rule.resource.partition("/")
    attributes: dict[str, Any] = {"verb": verb, "group": rule.group, "resource": resource}
    optional = {"subresource": subresource, "name": rule.name, "namespace": namespace}
    attributes |= {key: value for key, value in optional.items() if value}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(api.create_object(_REVIEWS, review)["status"].get("allowed"))


def _account_rules(api: KubernetesApi) -> list[Json]:
    """Return the rules that the API server lists for the account in all namespaces; it may know of more."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": _NO_NAMESPACE},
    }
    try:
        return list(api.create_object(_RULES, review)["status"].get("resourceRules") or ())
    except Denied:
        return []


def _missing_of(api: KubernetesApi, rule: AccessRule, known: Sequence[Json]) -> Iterator[str]:
    resource = f"{rule.resource}.{rule.group}" if rule.group else rule.resource
    for verb in rule.verbs:
        if not any(_contains(each, verb, rule) for each in known) and not is_allowed(api, verb, rule):
            yield f"{verb} {resource}" + (f" ({rule.name})" if rule.name else "")


def _contains(known: Json, verb: str, rule: AccessRule) -> bool:
    """Return whether a rule of RBAC contains a permission."""
    _, _, subresource = rule.resource.partition("/")
    resources = {"*", rule.resource, f"*/{subresource}"} if subresource else {"*", rule.resource}
    names = known.get("resourceNames")
    return (
        not {"*", verb}.isdisjoint(known.get("verbs") or ())
        and not {"*", rule.group}.isdisjoint(known.get("apiGroups") or ())
        and not resources.isdisjoint(known.get("resources") or ())
        and (not names or rule.name in names)
    )
