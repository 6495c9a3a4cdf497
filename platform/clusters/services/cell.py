"""Cells: each has one quota tree, its clusters and one scheduling loop."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.models import Cell, Sharing
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import is_dns_label
from foundation.messaging import outbox
from foundation.sql import versions
from tenants.access import permissions
from tenants.access.permissions import Permission


@transaction.atomic
def cell_add(*, acting_user: Actor, name: str) -> Cell:
    """Create a cell without clusters.

    Raises: PermissionDenied; Invalid for the name; Conflict if the name is taken.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    if not is_dns_label(name):
        message = _(
            "Invalid scheduling domain name. Use lowercase letters, digits and hyphens, for example gpu-east."
        )
        raise Invalid(message, errors=[FieldError("name", "name", message)])
    cell = Cell(name=name)
    try:
        with transaction.atomic():
            cell.save(force_insert=True)
    except IntegrityError as error:
        taken = _("Scheduling domain %(name)s already exists.") % {"name": name}
        raise Conflict(taken, code="NAME_TAKEN", errors=[FieldError("name", "NAME_TAKEN", taken)]) from error
    audit_log.record_action(acting_user, "cell.add", entity="cell", entity_id=cell.pk, after={"name": name})
    return cell


@transaction.atomic
def cell_set(*, acting_user: Actor, cell: Cell, sharing: Sharing, expected: int | None = None) -> Cell:
    """Set how a cell shares unused quota of tenants; its next cycle applies it.

    Running jobs keep what they borrowed until a waiting job may reclaim it by the new rule.
    Raises: PermissionDenied; PreconditionFailed if the cell is not at the version `expected`.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    versions.advance_version(cell, expected=expected)
    before = Cell.unscoped.values_list("sharing", flat=True).get(pk=cell.pk)
    Cell.unscoped.filter(pk=cell.pk).update(sharing=sharing)
    cell.sharing = sharing
    audit_log.record_action(
        acting_user,
        "cell.set",
        entity="cell",
        entity_id=cell.pk,
        before={"sharing": before},
        after={"sharing": sharing.value},
    )
    outbox.add_hint(outbox.Topic.CYCLE, cell.pk)
    return cell
