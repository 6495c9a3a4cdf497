"""Leaves room in each page of the tables that are written again soon, for the next version of their rows.

PostgreSQL writes it beside the old one then, and none of the indexes when no column of theirs has changed.
Pages that are full already stay so.
"""

from django.db import migrations

ROOM = {
    "scheduling_job": 70,
    "scheduling_task": 70,
    "scheduling_attempt": 80,
    "scheduling_allocation": 60,
}


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, percent in ROOM.items():
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


def take(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table in ROOM:
            schema_editor.execute(f"ALTER TABLE {table} RESET (fillfactor)")


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0007_roles_restart")]

    operations = [migrations.RunPython(make, take)]
