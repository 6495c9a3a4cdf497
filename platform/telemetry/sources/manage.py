"""Adds, changes, tests and deletes sources, for users who may edit clusters."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.models import Cluster
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import is_dns_label
from foundation.core.sealed_text import seal_text
from foundation.sql.versions import advance_version
from foundation.web.outgoing import AddressNotAllowed, check_url
from telemetry.models import SourceKind, SourceNode, SourceStatus, TelemetrySource
from telemetry.sources.collect import make_plan
from telemetry.sources.fetch import SourceFailed
from telemetry.sources.prometheus import is_label
from telemetry.sources.reading import SourceResult, read_sources
from telemetry.store.times import to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission

EVERY_S_MIN: Final = 15
# A reading covers its interval, and gaps and totals support no longer ones.
EVERY_S_MAX: Final = 60
ADDRESS_MAX: Final = 500
MATCHERS_MAX: Final = 10
SECRET_MAX: Final = 16 * 1024
AUTHORITY_MAX: Final = 64 * 1024
_VALUE_MAX: Final = 200
_BRACES: Final = re.compile(r"[{}]")
_CONTROL: Final = re.compile(r"[^ -~]")
_EDITABLE: Final = (
    "name",
    "kind",
    "address",
    "every_s",
    "enabled",
    "matchers",
    "user",
    "authority",
    "history",
)


def source_add(*, acting_user: Actor, cluster: Cluster, secret: str = "", **given: Any) -> TelemetrySource:
    """Add a source; it is first read within seconds, and need not answer now.

    `given` names fields of `TelemetrySource`; `secret` is a token, or with `user` a password.
    Raises: PermissionDenied; Invalid; Conflict if the name is taken.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    made = TelemetrySource(cluster=cluster, **given)
    _check(made, secret)
    made.secret = seal_text(secret)
    with transaction.atomic():
        _save(made)
        _note(acting_user, "add", made, after=_describe(made))
    return made


def source_change(
    *,
    acting_user: Actor,
    source: TelemetrySource,
    secret: str | None = None,
    expected: int | None = None,
    **given: Any,
) -> TelemetrySource:
    """Change the given fields. `secret=None` keeps the stored secret, "" removes it.

    A stored secret is never sent to another server: with a new host it has to be entered again.
    Raises: PermissionDenied; Invalid; PreconditionFailed; Conflict if the name is taken.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    before, address = _describe(source), source.address
    for name, value in given.items():
        setattr(source, name, value)
    if secret is None and source.secret and _server(address) != _server(source.address):
        _refuse("secret", "REQUIRED", _("Enter the credential again when the server in the address changes."))
    _check(source, "kept" if secret is None and source.secret else secret or "")
    if secret is not None:
        source.secret = seal_text(secret)
    with transaction.atomic():
        advance_version(source, expected=expected)
        _save(source, update_fields=[*_EDITABLE, "secret"])
        if source.address != address or source.kind != before["kind"]:
            # The status of the previous address does not apply to this one.
            SourceStatus.unscoped.filter(source=source).delete()
            SourceNode.unscoped.filter(source=source).delete()
        _note(acting_user, "change", source, before=before, after=_describe(source))
    return source


@transaction.atomic
def source_delete(*, acting_user: Actor, source: TelemetrySource, expected: int | None = None) -> None:
    """Stop reading a source and delete it; its measurements stay.

    Raises: PermissionDenied; PreconditionFailed.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    advance_version(source, expected=expected)
    _note(acting_user, "delete", source, before=_describe(source))
    source.delete()


def source_try(*, acting_user: Actor, source: TelemetrySource) -> SourceResult:
    """Read a source now and return the result; nothing is stored. No transaction may be open.

    Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    try:
        plan = make_plan(source)
    except SourceFailed as failed:
        return SourceResult(failed=failed)
    return read_sources([plan], now_ms=to_ms(clock.now()))[plan.key]


def _refuse(field: str, code: str, message: str) -> None:
    raise Invalid(message, errors=[FieldError(field, code, message)])


def _server(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()


def _check(source: TelemetrySource, secret: str) -> None:
    """Refuse a source that could never be read. Raises: Invalid."""
    if not is_dns_label(source.name):
        _refuse("name", "FORMAT", _("Use lowercase letters, digits and hyphens, for example dcgm."))
    if source.kind not in SourceKind.values:
        _refuse("kind", "UNKNOWN", _("Unknown type."))
    if not EVERY_S_MIN <= source.every_s <= EVERY_S_MAX:
        bounds = {"least": EVERY_S_MIN, "most": EVERY_S_MAX}
        _refuse("every_s", "RANGE", _("Must be from %(least)s to %(most)s seconds.") % bounds)
    _check_address(source)
    _check_matchers(source)
    if source.history and source.kind != SourceKind.PROMETHEUS:
        _refuse("history", "REFUSED", _("Only a Prometheus server keeps history."))
    # Header values are ASCII; and no error of the HTTP library may ever show a part of a secret.
    if len(secret) > SECRET_MAX or _CONTROL.search(secret):
        _refuse("secret", "FORMAT", _("Must be one line of at most 16 KiB of ASCII characters."))
    if _CONTROL.search(source.user) or ":" in source.user:
        _refuse("user", "FORMAT", _("Must not contain a colon or control characters."))
    if source.user and not secret:
        _refuse("secret", "REQUIRED", _("A user name requires a password."))
    _check_authority(source.authority)


def _check_address(source: TelemetrySource) -> None:
    template = source.address.replace("{node}", "node")
    parts = None
    if len(source.address) <= ADDRESS_MAX and not _BRACES.search(template):
        try:
            parts = check_url(template)
        except AddressNotAllowed:
            parts = None
    if parts is None or parts.fragment:
        _refuse("address", "FORMAT", _("Enter an http:// or https:// address without user name or password."))
    elif source.kind == SourceKind.PROMETHEUS and (parts.query or "{node}" in source.address):
        _refuse("address", "FORMAT", _("Enter the base address of the Prometheus server."))


def _check_matchers(source: TelemetrySource) -> None:
    matchers = source.matchers
    if matchers and source.kind != SourceKind.PROMETHEUS:
        _refuse("matchers", "REFUSED", _("Only a Prometheus server has label filters."))
    if not isinstance(matchers, Mapping) or len(matchers) > MATCHERS_MAX:
        _refuse("matchers", "FORMAT", _("At most %(most)s labels.") % {"most": MATCHERS_MAX})
    for label, value in matchers.items():
        if not is_label(label) or not isinstance(value, str) or len(value) > _VALUE_MAX or "\x00" in value:
            _refuse("matchers", "FORMAT", _("Not a valid label: %(label)s") % {"label": label[:100]})


def _check_authority(text: str) -> None:
    if not text:
        return
    try:
        if len(text) > AUTHORITY_MAX:
            raise ValueError("too long")
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):
        _refuse("authority", "FORMAT", _("Not a PEM certificate."))


def _save(source: TelemetrySource, **how: Any) -> None:
    try:
        with transaction.atomic():
            source.save(**how)
    except IntegrityError as error:
        taken = _("The cluster already has a data source with this name.")
        raise Conflict(taken, code="NAME_TAKEN", errors=[FieldError("name", "NAME_TAKEN", taken)]) from error


def _describe(source: TelemetrySource) -> dict[str, Any]:
    """Return a source's fields for the audit log: whether it has a secret, never the secret."""
    fields = {name: getattr(source, name) for name in _EDITABLE if name != "authority"}
    return {**fields, "secret": bool(source.secret), "authority": bool(source.authority)}


def _note(actor: Actor, verb: str, source: TelemetrySource, **change: Any) -> None:
    where = {"cluster": source.cluster.name}
    change = {name: {**where, **values} for name, values in change.items()}
    audit_log.record_action(
        actor, f"telemetry-source.{verb}", entity="telemetry-source", entity_id=source.pk, **change
    )
