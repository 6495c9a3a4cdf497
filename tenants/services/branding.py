"""The name and logo of an installation, set by platform admins."""

from __future__ import annotations

import hashlib
from typing import Final

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid
from foundation.core.images import find_image_type
from foundation.models import Installation
from foundation.models.branding import forget_branding
from foundation.models.installation import installation_id
from tenants.access import permissions
from tenants.access.permissions import Permission

LOGO_MAX: Final = 128 * 1024
NAME_MAX: Final = 40
_MARK: Final = 16


@transaction.atomic
def branding_update(
    *, acting_user: Actor, name: str, logo: bytes | None = None, remove_logo: bool = False
) -> None:
    """Set the name, and the logo if one is given or removed. Raises: PermissionDenied, Invalid."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    key = installation_id()
    values: dict[str, object] = {"name": _check_name(name)}
    if logo is not None:
        values |= _check_logo(logo)
    elif remove_logo:
        values |= {"logo": None, "logo_type": "", "logo_mark": ""}
    changes = {field: value for field, value in values.items() if field != "logo"}
    before = Installation.unscoped.select_for_update().values(*changes).get()
    Installation.unscoped.update(**values)
    transaction.on_commit(forget_branding)
    audit_log.record_action(
        acting_user,
        "branding.update",
        entity="installation",
        entity_id=key,
        before=before,
        after=changes,
    )


def _check_name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > NAME_MAX:
        raise _invalid("name", _("At most %(n)s characters.") % {"n": NAME_MAX})
    if not name.isprintable():
        raise _invalid("name", _("Names can't contain control characters."))
    return name


def _check_logo(logo: bytes) -> dict[str, object]:
    if len(logo) > LOGO_MAX:
        raise _invalid("logo", _("The file is larger than %(n)s KiB.") % {"n": LOGO_MAX // 1024})
    kind = find_image_type(logo)
    if not kind:
        raise _invalid("logo", _("Choose a PNG, JPEG or WebP image. SVG is not accepted."))
    mark = hashlib.sha256(logo).hexdigest()[:_MARK]
    return {"logo": logo, "logo_type": kind, "logo_mark": mark}


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(field, "INVALID", message)])
