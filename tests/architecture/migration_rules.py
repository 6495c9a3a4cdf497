"""Checks which operations of a migration the processes of the previous version survive.

During a rolling upgrade old processes run on the new schema: their inserts do not name new columns, and their
queries name every column that they know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.db import models
from django.db.migrations import Migration, operations
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.fields import NOT_PROVIDED

from foundation.sql.online_index import AddIndexOnline, RemoveIndexOnline

REASON: Final = "SAFE_BESIDE_OLD_CODE"
"""The name in a migration's module with the reason why old processes survive what these rules can't check."""
_ALWAYS: Final = (
    operations.CreateModel,
    operations.AlterModelOptions,
    operations.AlterModelManagers,
    AddIndexOnline,
    RemoveIndexOnline,
)
_ON_NEW_TABLES: Final = (operations.AddIndex, operations.AddConstraint, operations.AlterUniqueTogether)
_NOT_IN_THE_DATABASE: Final = frozenset(
    {"default", "db_default", "choices", "help_text", "verbose_name", "validators", "blank", "editable",
     "error_messages", "serialize", "related_name"}
)  # fmt: skip
_MAY_GROW: Final = frozenset({"max_length", "max_digits"})


def unsafe(migration: Migration, before: ProjectState) -> Iterator[str]:
    """Yield each operation of `migration` that a process of the previous version would not survive, in words.

    `before` is the state that the migration starts from; it is changed.
    """
    made: set[str] = set()
    changed: set[str] = set()
    for operation in migration.operations:
        yield from _check(operation, migration.app_label, before, made)
        if isinstance(operation, operations.CreateModel):
            made.add(operation.name_lower)
        changed |= _changed(operation) - made
        operation.state_forwards(migration.app_label, before)
    if migration.atomic and len(changed) > 1:
        names = ", ".join(sorted(changed))
        yield f"{names} in one transaction, a deadlock for whoever reads both; a migration for each"
    twice = all(isinstance(each, operations.AlterField) for each in migration.operations)
    if not migration.atomic and len(migration.operations) > 1 and not twice:
        yield "it begins anew when it is tried again, and not all of its operations may be done twice"
    online = [each for each in migration.operations if isinstance(each, AddIndexOnline | RemoveIndexOnline)]
    if online and (migration.atomic or len(migration.operations) > 1):
        yield "an index that is built online stands alone in its migration, which has atomic = False"


def _changed(operation: Operation) -> set[str]:
    """Return the tables that an operation locks against readers."""
    if isinstance(operation, operations.SeparateDatabaseAndState | operations.AlterModelOptions):
        return set()
    return {str(model).lower()} if (model := getattr(operation, "model_name", "")) else set()


def _check(operation: Operation, app: str, before: ProjectState, made: set[str]) -> Iterator[str]:
    model = str(getattr(operation, "model_name", "")).lower()
    if isinstance(operation, _ALWAYS) or model in made:
        return
    if isinstance(operation, operations.AddField):
        yield from _check_new(operation.name, operation.field)
    elif isinstance(operation, operations.AlterField):
        old: Any = before.models[app, model].fields[operation.name]
        yield from _check_change(operation.name, old, operation.field)
    elif isinstance(operation, operations.SeparateDatabaseAndState) and not operation.database_operations:
        for each in operation.state_operations:
            yield from _check_forgotten(each, app, before)
    else:
        name = type(operation).__name__
        hint = "; use AddIndexOnline" if isinstance(operation, operations.AddIndex) else ""
        yield f"{name}: {operation.describe()}{hint}"


def _check_forgotten(operation: Operation, app: str, before: ProjectState) -> Iterator[str]:
    """Yield a problem if a column stays in the database without its field: new processes do not fill it."""
    if not isinstance(operation, operations.RemoveField):
        yield f"in the state alone: {operation.describe()}"
        return
    field: Any = before.models[app, operation.model_name_lower].fields[operation.name]
    if not field.null and not _has_database_default(field):
        yield f"RemoveField {operation.name}: make it nullable first, or nobody can add a row"


def _check_new(name: str, field: models.Field[Any, Any]) -> Iterator[str]:
    if field.unique and not field.null:
        yield f"AddField {name}: a unique column that old processes do not fill has to be nullable"
    elif not field.null and not _has_database_default(field) and not field.many_to_many:
        yield f"AddField {name}: old processes do not fill it, so it has to be nullable or have db_default"


def _check_change(name: str, old: Any, new: Any) -> Iterator[str]:
    if type(old) is not type(new):
        yield f"AlterField {name}: another type, {type(new).__name__} in place of {type(old).__name__}"
        return
    before, after = old.deconstruct()[3], new.deconstruct()[3]
    if old.null and not new.null:
        yield f"AlterField {name}: old processes may write null"
    if _has_database_default(old) and not (_has_database_default(new) or new.null):
        yield f"AlterField {name}: old processes count on its database default"
    for option in sorted({*before, *after} - _NOT_IN_THE_DATABASE - {"null"}):
        if before.get(option) == after.get(option):
            continue
        grows = option in _MAY_GROW and (after.get(option) is None or after[option] > before.get(option, 0))
        if not grows:
            yield f"AlterField {name}: {option} changes"


def _has_database_default(field: Any) -> bool:
    return getattr(field, "db_default", NOT_PROVIDED) is not NOT_PROVIDED


def unexplained(module: Any, found: Sequence[str]) -> list[str]:
    """Return what the reason in the migration leaves of `found`; a reason without need is left, too."""
    reason = getattr(module, REASON, "")
    if reason and not found:
        return [f"{REASON} is not needed"]
    return [] if len(str(reason)) > 20 else list(found)
