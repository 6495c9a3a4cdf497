"""The names of the subjects of audit records."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from clusters.models import Cell, Cluster, Flavor
from foundation.models import AuditRecord
from quotas.models import Queue, QuotaNode
from scheduling.models import Job, WorkspacePolicy
from tenants.models import Group, Tenant, User

_OWN: Final = ("name", "username")
"""The keys of a record's values that have the subject's name at that time."""
_OF_UNNAMED: Final = ("user", "slug", "device", "flavor")
"""The keys whose value is used if the subject has no name of its own, such as a membership or a price."""
_NAMED: Final[Mapping[str, tuple[Any, str]]] = {
    "cell": (Cell.unscoped, "name"),
    "cluster": (Cluster.unscoped, "name"),
    "flavor": (Flavor.unscoped, "name"),
    "group": (Group.unscoped, "name"),
    "job": (Job.unscoped, "name"),
    "policy": (WorkspacePolicy.unscoped, "tenant__name"),
    "queue": (Queue.unscoped, "name"),
    "quota-node": (QuotaNode.unscoped, "tenant__name"),
    "tenant": (Tenant.unscoped, "name"),
    "user": (User.objects, "username"),
}


def find_subjects(records: Sequence[AuditRecord]) -> dict[uuid.UUID, str]:
    """Return the name of each record's subject, by record; subjects that have no name or are deleted are
    absent.

    It takes one query for each kind of subject whose records do not contain the name.
    """
    found = {record.pk: name for record in records if (name := _own_name(record))}
    wanted: defaultdict[str, dict[uuid.UUID, uuid.UUID]] = defaultdict(dict)
    for record in records:
        if record.pk not in found and record.entity in _NAMED and (key := _as_uuid(record.entity_id)):
            wanted[record.entity][record.pk] = key
    for entity, keys in wanted.items():
        rows, column = _NAMED[entity]
        names = dict(rows.filter(pk__in=set(keys.values())).order_by().values_list("pk", column))
        found |= {pk: names[key] for pk, key in keys.items() if key in names}
    return found


def _own_name(record: AuditRecord) -> str:
    # The record of a group may name the user that was added, which is not its subject.
    keys = _OWN if record.entity in _NAMED else _OWN + _OF_UNNAMED
    return next(_texts(keys, record.after, record.before), "")


def _texts(keys: Sequence[str], *values: Mapping[str, Any]) -> Iterator[str]:
    for known in values:
        for key in keys:
            if isinstance(text := known.get(key), str) and text:
                yield text


def _as_uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
