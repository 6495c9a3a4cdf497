"""Keeps Kueue's objects equal to the quota tree, by comparing the existing objects with the wanted ones.

Nothing is stored between two comparisons. A changed object is restored, a deleted one is created again, and
one that is no longer wanted is deleted. Objects of other owners are not read: only objects with our label are
listed, and an object with one of our names but without the label is left unchanged and reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.backends.delegation import Projected, Projection
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, ObjectNameTaken, RequestRefused
from clusters.backends.kubernetes.namespaces.namespaces import namespace_found
from clusters.backends.kubernetes.pods.pods import is_of_another, is_ours
from clusters.backends.kueue.amounts import parse_quantity
from clusters.backends.kueue.names import object_path, owner_selector
from clusters.backends.kueue.objects import IN_ORDER, ProjectedObject, projected_objects

_NOT_FOUND, _CONFLICT = 404, 409
_WHOLE: Final = frozenset({"nodeLabels", "matchLabels"})
"""Maps to which no other client may add entries: with one more label it would be another flavor."""

Key = tuple[str, str, str]


def apply_projection(api: KubernetesApi, owner: str, projection: Projection) -> Projected:
    """Compare and repair the objects. Raises: BackendUnavailable."""
    done = Projected()
    there = _there(api, owner)
    wanted = {item.key: item for item in projected_objects(projection, owner, api.installation)}
    for key, item in wanted.items():
        if key not in there:
            _create(api, item, done)
        elif patch := merge_patch(item.content, there[key]):
            _repair(api, item, patch, done)
    for plural in reversed(IN_ORDER):
        for key in sorted(key for key in there if key[0] == plural and key not in wanted):
            if not there[key]["metadata"].get("deletionTimestamp"):  # else it waits for its users
                _remove(api, key, there[key], done)
    return done


def _there(api: KubernetesApi, owner: str) -> dict[Key, Json]:
    found: dict[Key, Json] = {}
    for plural in IN_ORDER:
        items, _ = api.list_objects(object_path(plural), labelSelector=owner_selector(owner))
        for item in items:
            metadata = item["metadata"]
            found[plural, metadata.get("namespace", ""), metadata["name"]] = item
    return found


def _create(api: KubernetesApi, item: ProjectedObject, done: Projected) -> None:
    plural, namespace, name = item.key
    content = _stated(item.content)
    try:
        if namespace:
            namespace_found(api, namespace, item.workspace)
        api.create_object(object_path(plural, namespace=namespace), content)
        done.created.append(_title(item))
    except ObjectNameTaken as error:
        done.refused[_title(item)] = str(error)
    except RequestRefused as error:
        if error.status != _CONFLICT:
            done.refused[_title(item)] = error.message
            return
        _adopt(api, item, api.get(object_path(plural, name, namespace)), done)


def _stated(content: Json) -> Json:
    """Return a manifest without the values that must be absent."""
    return {
        key: _stated(value) if isinstance(value, dict) else value
        for key, value in content.items()
        if value is not None
    }


def _adopt(api: KubernetesApi, item: ProjectedObject, found: Json, done: Projected) -> None:
    """Take over an object of an earlier registration of the cluster; refuse any other owner's object."""
    if not is_ours(found) or is_of_another(found, api.installation):
        done.refused[_title(item)] = "an object of that name exists that is not ours"
    elif patch := merge_patch(item.content, found):
        _repair(api, item, patch, done)


def _repair(api: KubernetesApi, item: ProjectedObject, patch: Json, done: Projected) -> None:
    plural, namespace, name = item.key
    try:
        api.patch(object_path(plural, name, namespace), patch)
        done.repaired.append(_title(item))
    except RequestRefused as error:
        done.refused[_title(item)] = error.message


def _remove(api: KubernetesApi, key: Key, found: Json, done: Projected) -> None:
    plural, namespace, name = key
    try:
        api.delete(object_path(plural, name, namespace), {"preconditions": {"uid": found["metadata"]["uid"]}})
    except RequestRefused as error:
        if error.status not in (_NOT_FOUND, _CONFLICT):
            done.refused[f"{plural}/{name}"] = error.message
            return
    done.removed.append(f"{plural}/{name}")


def _title(item: ProjectedObject) -> str:
    plural, _, name = item.key
    return f"{plural}/{name}"


def merge_patch(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Json:
    """Return the merge patch that changes `found` to all that `wanted` states; empty if nothing differs.

    Quantities are compared by value, since the API writes them in its own notation.
    """
    patch: Json = {}
    for key, value in wanted.items():
        other = found.get(key)
        if isinstance(value, Mapping) and (isinstance(other, Mapping) or other is None):
            more = merge_patch(value, other or {})
            if key in _WHOLE:
                more |= dict.fromkeys(sorted((other or {}).keys() - value.keys()))
            if more:
                patch[key] = more
        elif not _same(value, other):
            patch[key] = value
    return patch


def _same(wanted: Any, found: Any) -> bool:
    """Return whether a value is as wanted; an absent value equals an empty one."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and not merge_patch(wanted, found) and wanted.keys() == found.keys()
    if isinstance(wanted, list):
        there = found or []
        return len(wanted) == len(there) and all(map(_same, wanted, there))
    if wanted == found:
        return True
    amounts = parse_quantity(wanted), parse_quantity(found)
    return None not in amounts and amounts[0] == amounts[1]
