"""The names of what audit records are about."""

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
"""What a record says of its subject itself, as it was then."""
_OF_UNNAMED: Final = ("user", "slug", "device", "flavor")
"""What stands for a subject that has no name of its own, such as a membership or a price."""
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
    """Return the name of what each record is about, by record; what has no name, or is deleted, is absent.

    One query per kind of thing whose records do not hold the name.
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
    # A group's record may name the user who was added: that is not its subject.
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
