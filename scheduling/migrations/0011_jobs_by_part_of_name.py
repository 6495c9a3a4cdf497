"""A function that finds jobs of all workspaces by a part of their names, as `allotment_jobs_named` does in one.

It needs the index of parts of names, which the first migration adds on PostgreSQL.
"""

from django.db import migrations

SAFE_BESIDE_OLD_CODE = "it adds a function that old processes do not call"
FIND_ANYWHERE = """
CREATE OR REPLACE FUNCTION allotment_jobs_named_anywhere(pattern text, most integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50 AS $$ BEGIN
    -- What the policies on rows would show, for the rows alone that have the part.
    RETURN QUERY EXECUTE 'SELECT id FROM scheduling_job WHERE name LIKE $1
        AND ($3 OR workspace_id = ANY ($4) OR allotment_below(workspace_id))
        ORDER BY submitted_at DESC, id DESC LIMIT $2'
        USING pattern, most, allotment_sees_all(), allotment_tenants();
END $$;
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION allotment_jobs_named_anywhere SET search_path = %I, pg_temp', current_schema());
END $$;
"""


def add_function(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FIND_ANYWHERE, params=None)


def drop_function(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS allotment_jobs_named_anywhere(text, integer)", params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0010_all_jobs_by_priority"),
    ]

    operations = [migrations.RunPython(add_function, drop_function)]
