"""Lets jobs be found by a part of their names on PostgreSQL without reading all names of a workspace.

No index of parts can be used below the policies on rows: `LIKE` may tell in an error what it compared, so
the policies have to come first. Hence a function that looks at the policy of the workspace itself, once, and
searches with the rights of whoever migrates. Where the policies bind that role too, it answers the same, slowly.
"""

from django.db import migrations

# Each insert keeps the index current by itself: a list of what is pending would be sorted in by some unlucky one.
MAKE = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX job_by_part_of_name ON scheduling_job USING gin (name gin_trgm_ops) WITH (fastupdate = off);
CREATE FUNCTION allotment_jobs_named(workspace uuid, pattern text, most integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50 AS $$ BEGIN
    IF allotment_sees_all() OR workspace = ANY (allotment_tenants()) OR allotment_below(workspace) THEN
        -- Planned for each pattern: what many names have is soon found by time, which mixes them.
        RETURN QUERY EXECUTE 'SELECT id FROM scheduling_job WHERE workspace_id = $1 AND name LIKE $2
            ORDER BY submitted_at DESC, id DESC LIMIT $3' USING workspace, pattern, most;
    END IF;
END $$;
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION allotment_jobs_named SET search_path = %I, pg_temp', current_schema());
END $$;
"""
TAKE = "DROP FUNCTION allotment_jobs_named; DROP INDEX job_by_part_of_name"


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(MAKE, params=None)


def take(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(TAKE, params=None)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0005_jobs_say_how_pods_run")]
    operations = [migrations.RunPython(make, take)]
