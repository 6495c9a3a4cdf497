"""Lets the index of parts of names take new versions of rows together instead of one by one.

A job gets a new version with each change of its state, and each was more work in this index than in all others.
What is pending is searched through as it is, so it is kept short: whoever sorts it in waits for milliseconds.
"""

from django.db import migrations

TOGETHER = "ALTER INDEX job_by_part_of_name SET (fastupdate = on, gin_pending_list_limit = 256)"
ONE_BY_ONE = "ALTER INDEX job_by_part_of_name SET (fastupdate = off)"


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(TOGETHER)


def take(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(ONE_BY_ONE)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0009_memory_resizes")]

    operations = [migrations.RunPython(make, take)]
