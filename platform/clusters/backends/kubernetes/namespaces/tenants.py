"""Creates and restores the objects around a workspace's pods in the cluster.

They guard against pods that are created without the platform: pod security, an account without a token, no
connections from other namespaces, and a quota for cards. Only namespaces marked as a workspace's own are
touched, so a workspace with the same name as another owner's namespace takes nothing over. A namespace from
before this mark is marked if the platform's own objects are in it and the ledger has had pods of the
workspace there.

The quota is a second check behind the ledger and must never refuse what the engine admitted. A controller of
the cluster stops counting an ended pod seconds later, while its cards are allocated again at once. So the
quota is twice what the workspace could ever hold. It names cards alone: with CPU or memory in it the cluster
would refuse every task that requests none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from clusters.backends.base import Governed, NamespaceState, TenantLimits
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.namespaces.namespaces import (
    NAMESPACES,
    POLICIES,
    Body,
    build_network_policy,
    build_service_account,
    is_owned,
    is_unmarked,
    namespace_labels,
)
from clusters.backends.kubernetes.pods.pods import SELECTOR, own_labels
from clusters.gpu.nvidia import CARD_RESOURCE, MIG_RESOURCE

_HEAD_ROOM: Final = 2
_NAME: Final = "allotment"
Change = tuple[Any, Any]
"""The values of a field before and now."""
_NOT_FOUND, _EXISTS = 404, 409
# The compared parts of an object in addition to its labels; the cluster sets the rest.
_RESTORED: Final = ("spec", "automountServiceAccountToken")
_LISTS: Final = ("/api/v1/serviceaccounts", "/api/v1/resourcequotas", f"{POLICIES}/networkpolicies")


def ensure_namespaces(api: KubernetesApi, limits: Sequence[TenantLimits]) -> Governed:
    """Create missing objects and restore changed ones. Raises: BackendUnavailable."""
    there, _ = api.list_objects(NAMESPACES, labelSelector=SELECTOR)
    namespaces = {item["metadata"]["name"]: item for item in there}
    found = {
        _key(path, item): item
        for path in _LISTS
        for item in api.list_objects(path, labelSelector=SELECTOR)[0]
    }
    created: list[str] = []
    repaired: dict[str, Mapping[str, Change]] = {}
    refused: dict[str, str] = {}
    unmarked: list[str] = []
    for item in limits:
        namespace = namespaces.get(item.namespace)
        if namespace is None:
            continue
        if is_unmarked(api, namespace):
            if not (item.used and _surrounded(found, item.namespace)):
                unmarked.append(item.namespace)
                continue
        elif not is_owned(api, namespace, item.workspace):
            refused[f"namespaces/{item.namespace}"] = "it is marked as that of another workspace"
            continue
        for title, path, collection, body in _wanted(api.installation, item):
            known = namespace if path == NAMESPACES else found.get((path, title))
            try:
                done = _bring_back(api, collection, body, known)
            except RequestRefused as error:
                refused[title] = error.message
                continue
            if done is None:
                created.append(title)
            elif done:
                repaired[title] = done
    return Governed(tuple(created), repaired, refused, tuple(unmarked))


def adopt_namespace(api: KubernetesApi, name: str, workspace: str) -> None:
    """Mark an existing namespace as that of a workspace, whatever its owner. Raises: BackendUnavailable."""
    labels = namespace_labels(api.installation, workspace)
    api.patch(f"{NAMESPACES}/{name}", {"metadata": {"labels": labels}})
    for root, kind, body in (build_service_account(api.installation), build_network_policy(api.installation)):
        _bring_back(api, f"{root}/namespaces/{name}/{kind}", body, None)


def namespace_state(api: KubernetesApi, name: str, workspace: str) -> NamespaceState:
    """Return the owner of a namespace, seen from a workspace. Raises: BackendUnavailable."""
    try:
        namespace = api.get(f"{NAMESPACES}/{name}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return NamespaceState.ABSENT
    if is_owned(api, namespace, workspace):
        return NamespaceState.OWN
    return NamespaceState.UNMARKED if is_unmarked(api, namespace) else NamespaceState.FOREIGN


def _surrounded(found: Mapping[tuple[str, str], Json], namespace: str) -> bool:
    """Return whether a namespace has the account and the network policy that the platform makes with it."""
    own = (_place(namespace, body) for body in (build_service_account(""), build_network_policy("")))
    return all((path, title) in found for title, path, _, _ in own)


def _wanted(installation: str, item: TenantLimits) -> Iterator[tuple[str, str, str, Json]]:
    """Yield the namespace and the objects in it, in the form of `_place`."""
    labels = namespace_labels(installation, item.workspace)
    title, content = f"namespaces/{item.namespace}", {"metadata": {"name": item.namespace, "labels": labels}}
    yield title, NAMESPACES, NAMESPACES, content
    for body in (
        build_service_account(installation),
        build_network_policy(installation),
        _quota(item.cards, installation),
    ):
        yield _place(item.namespace, body)


def _place(namespace: str, body: Body) -> tuple[str, str, str, Json]:
    """Return title, path of all objects of its kind, path of those in the namespace, and the object."""
    root, kind, content = body
    title = f"{kind}/{namespace}/{content['metadata']['name']}"
    return title, f"{root}/{kind}", f"{root}/namespaces/{namespace}/{kind}", content


def _key(path: str, item: Json) -> tuple[str, str]:
    metadata, kind = item["metadata"], path.rpartition("/")[2]
    return path, f"{kind}/{metadata['namespace']}/{metadata['name']}"


def _quota(cards: Mapping[str, int], installation: str) -> Body:
    hard = {
        f"requests.{MIG_RESOURCE + profile if profile else CARD_RESOURCE}": str(_HEAD_ROOM * count)
        for profile, count in sorted(cards.items())
    }
    metadata = {"name": _NAME, "labels": own_labels(installation)}
    return "/api/v1", "resourcequotas", {"metadata": metadata, "spec": {"hard": hard}}


def _bring_back(
    api: KubernetesApi, collection: str, body: Json, known: Json | None
) -> dict[str, Change] | None:
    """Restore changed fields and return the changes; None if the object was created."""
    address = f"{collection}/{body['metadata']['name']}"
    if known is None:
        try:
            api.create_object(collection, body)
        except RequestRefused as error:
            if error.status != _EXISTS:
                raise
            known = api.get(address)  # without our label, or created meanwhile
        else:
            return None
    labels = known["metadata"].get("labels") or {}
    lost = {key: value for key, value in body["metadata"]["labels"].items() if labels.get(key) != value}
    patch: Json = {"metadata": {"labels": lost}} if lost else {}
    for part in _RESTORED:
        if part in body and not _same(body[part], known.get(part)):
            patch[part] = _replaced(body[part], known.get(part))
    if patch:
        api.patch(address, patch)
    return dict(_changes(patch, known))


def _changes(patch: Any, known: Any, field: str = "") -> Iterator[tuple[str, Change]]:
    """Yield the changes of a merge, by the names of fields with dots between them."""
    if isinstance(patch, dict) and (not field or isinstance(known, dict)):
        for key, part in patch.items():
            yield from _changes(part, known.get(key), f"{field}.{key}" if field else key)
    elif not _same(patch, known):
        yield field, (known, patch)


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(_same(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(_same(*pair) for pair in zip(wanted, found, strict=True))
    return bool(wanted == found) or _quantities((wanted, found))


def _quantities(texts: Iterable[Any]) -> bool:
    """Return whether all quantities are equal: the cluster writes 2000 as 2k."""
    try:
        return len({parse_quantity(text) for text in texts}) == 1
    except (ValueError, TypeError):
        return False


def _replaced(wanted: Any, found: Any) -> Any:
    """Return a replacement as a merge patch: fields that it lacks are null, or a merge would keep them."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return wanted
    return dict(_merged(wanted, found))


def _merged(wanted: Json, found: Json) -> Iterator[tuple[str, Any]]:
    for key in sorted(wanted.keys() | found.keys()):
        yield key, _replaced(wanted[key], found.get(key)) if key in wanted else None
