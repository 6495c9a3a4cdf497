"""Processes of the previous version survive every migration: a rolling upgrade stops no process."""

from __future__ import annotations

import importlib
from typing import Any, Final

import pytest
from django.db import migrations, models
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.functions import Now

from foundation.sql.online_index import AddIndexOnline
from tenants.access.row_policies import OWN_APPS
from tests.architecture.migration_rules import REASON, unexplained, unsafe


def test_old_processes_survive_every_migration() -> None:
    loader = MigrationLoader(None)
    found = {}
    for (app, name), migration in sorted(loader.disk_migrations.items()):
        if app not in OWN_APPS or migration.initial:
            continue
        before = loader.project_state(list(migration.dependencies))
        module = importlib.import_module(type(migration).__module__)
        if left := unexplained(module, list(unsafe(migration, before))):
            found[f"{app}.{name}"] = left
    assert found == {}, f"change the migration, or say in it why old code survives, as {REASON} = '…'"


def test_every_column_that_came_later_has_a_default_in_the_database() -> None:
    loader = MigrationLoader(None)
    now = loader.project_state()
    missing = []
    for (app, _), migration in sorted(loader.disk_migrations.items()):
        made = {each.name_lower for each in migration.operations if isinstance(each, operations.CreateModel)}
        for each in migration.operations:
            if app not in OWN_APPS or not isinstance(each, operations.AddField):
                continue
            state = now.models.get((app, each.model_name_lower))
            field: Any = state.fields.get(each.name) if state else None
            if each.model_name_lower in made or field is None or field.null or field.many_to_many:
                continue
            if not field.has_db_default():
                missing.append(f"{app}.{each.model_name}.{each.name}")
    assert missing == []


def _field(**options: Any) -> models.Field[Any, Any]:
    return models.CharField(**{"max_length": 20, **options})


REFUSED: Final[dict[str, Operation]] = {
    "a default in Python alone": operations.AddField("job", "new", _field(default="")),
    "no default at all": operations.AddField("job", "new", models.IntegerField()),
    "a unique column with a default": operations.AddField("job", "new", _field(db_default="", unique=True)),
    "a removed column": operations.RemoveField("job", "name"),
    "a renamed column": operations.RenameField("job", "name", "title"),
    "a renamed table": operations.RenameModel("Job", "Work"),
    "a removed table": operations.DeleteModel("Job"),
    "a table under another name": operations.AlterModelTable("job", "work"),
    "null no more": operations.AlterField("job", "note", _field()),
    "shorter": operations.AlterField("job", "name", _field(max_length=10)),
    "another type": operations.AlterField("job", "name", models.TextField()),
    "unique from now on": operations.AlterField("job", "name", _field(unique=True)),
    "a column under another name": operations.AlterField("job", "name", _field(db_column="title")),
    "a database default taken away": operations.AlterField("job", "kind", _field(default="")),
    "an index that holds up writers": operations.AddIndex("job", models.Index(fields=["name"], name="n")),
    "a constraint on rows that are there": operations.AddConstraint(
        "job", models.UniqueConstraint(fields=["name"], name="u")
    ),
    "a column forgotten that nobody fills": operations.SeparateDatabaseAndState(
        state_operations=[operations.RemoveField("job", "name")]
    ),
    "code": operations.RunPython(operations.RunPython.noop),
    "SQL": operations.RunSQL("SELECT 1"),
    "SQL beside a state": operations.SeparateDatabaseAndState([operations.RunSQL("SELECT 1")]),
}
ALLOWED: Final[dict[str, Operation]] = {
    "a nullable column": operations.AddField("job", "new", _field(null=True)),
    "a column with a database default": operations.AddField("job", "new", _field(db_default="")),
    "a time from the database": operations.AddField("job", "new", models.DateTimeField(db_default=Now())),
    "a database default": operations.AlterField("job", "name", _field(db_default="")),
    "longer": operations.AlterField("job", "name", _field(max_length=40)),
    "nullable": operations.AlterField("job", "name", _field(null=True)),
    "other choices": operations.AlterField("job", "name", _field(choices=[("a", "A")])),
    "a table": operations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))]),
    "a removal in the state alone": operations.SeparateDatabaseAndState(
        state_operations=[operations.RemoveField("job", "note")]
    ),
}


def problems_of(*found: Operation, atomic: bool = True) -> list[str]:
    """Return the problems of a migration with these operations on a table of three columns."""
    fields = {
        "id": models.BigAutoField(primary_key=True),
        "name": _field(),
        "note": _field(null=True),
        "kind": _field(default="", db_default=""),
    }
    before = ProjectState()
    before.add_model(ModelState("app", "Job", list(fields.items())))
    before.add_model(ModelState("app", "Task", [("id", models.BigAutoField(primary_key=True))]))
    migration = migrations.Migration("0002_next", "app")
    migration.operations, migration.atomic = list(found), atomic
    return list(unsafe(migration, before))


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED)
def test_what_old_processes_do_not_survive_is_refused(operation: Operation) -> None:
    assert problems_of(operation)


@pytest.mark.parametrize("operation", ALLOWED.values(), ids=ALLOWED)
def test_what_old_processes_survive_is_allowed(operation: Operation) -> None:
    assert problems_of(operation) == []


def test_an_index_that_is_built_online_is_alone() -> None:
    index = AddIndexOnline("job", models.Index(fields=["name"], name="n"))
    assert problems_of(index, atomic=False) == []
    assert problems_of(index)
    assert problems_of(index, operations.AddField("job", "new", _field(null=True)), atomic=False)


def test_tables_in_use_are_changed_in_transactions_of_their_own() -> None:
    both = [
        operations.AddField("job", "new", _field(null=True)),
        operations.AddField("task", "new", _field(null=True)),
    ]
    assert problems_of(*both)
    assert problems_of(*both, atomic=False), "tried again, the first column is there already"
    again = [
        operations.AlterField("job", "name", _field(db_default="")),
        operations.AlterField("task", "id", models.BigAutoField(primary_key=True)),
    ]
    assert problems_of(*again)
    assert problems_of(*again, atomic=False) == []
    assert problems_of(both[0], operations.AddField("job", "newer", _field(null=True))) == []


def test_a_new_table_may_have_what_it_likes() -> None:
    made = operations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))])
    assert problems_of(made, operations.AddField("other", "new", models.IntegerField())) == []


def test_a_reason_is_accepted_and_an_empty_one_is_not() -> None:
    class Explained:
        SAFE_BESIDE_OLD_CODE = "the table is not in use before the next version"

    class Empty:
        SAFE_BESIDE_OLD_CODE = "ok"

    assert unexplained(Explained, ["RunPython"]) == []
    assert unexplained(Empty, ["RunPython"]) == ["RunPython"]
    assert unexplained(Explained, []) != [], "a reason that nothing needs is an error, too"
