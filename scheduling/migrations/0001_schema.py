import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
import foundation.core.reasons
from django.conf import settings
from django.db import migrations, models


CLASSES = (("low", -50), ("normal", 0), ("high", 100))


def add_classes(apps, schema_editor):
    """Every installation has the three usual priority classes; `high` has to be granted."""
    priority_class = apps.get_model("scheduling", "PriorityClass")
    for name, value in CLASSES:
        priority_class._base_manager.get_or_create(name=name, defaults={"value": value})


# Jobs are found by a part of their names on PostgreSQL without reading all names of a workspace. No index of
# parts can be used below the policies on rows: `LIKE` may tell in an error what it compared, so the policies
# have to come first. Hence a function that looks at the policy of the workspace itself, once, and searches with
# the rights of whoever migrates. Where the policies bind that role too, it answers the same, slowly.
# The index takes new versions of rows together: a job gets one with each change of its state. What is pending is
# searched through as it is, so it is kept short.
INDEX_NAMES = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX job_by_part_of_name ON scheduling_job USING gin (name gin_trgm_ops) WITH (gin_pending_list_limit = 256);
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
DROP_NAMES = "DROP FUNCTION allotment_jobs_named; DROP INDEX job_by_part_of_name"
# Room in each page of the tables that are written again soon, for the next version of their rows: PostgreSQL
# writes it beside the old one then, and none of the indexes when no column of theirs has changed.
FILL_PERCENT = {
    "scheduling_job": 70,
    "scheduling_task": 70,
    "scheduling_attempt": 80,
    "scheduling_allocation": 60,
}


def tune_tables(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(INDEX_NAMES, params=None)
        for table, percent in FILL_PERCENT.items():
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


def release_tables(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(DROP_NAMES, params=None)


class Migration(migrations.Migration):

    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('scheduling', '0001_tables'),
        ('scheduling', '0002_policies_list_values'),
        ('scheduling', '0003_jobs_by_priority_class'),
        ('scheduling', '0004_attempts_gather'),
        ('scheduling', '0005_jobs_say_how_pods_run'),
        ('scheduling', '0006_names_by_parts'),
        ('scheduling', '0007_roles_restart'),
        ('scheduling', '0008_room_for_updates'),
        ('scheduling', '0009_memory_resizes'),
        ('scheduling', '0010_names_taken_together'),
        ('scheduling', '0011_columns_have_database_defaults'),
        ('scheduling', '0012_pods_asked_for_again'),
        ('scheduling', '0013_policies_limit_starts'),
        ('scheduling', '0014_attempts_by_end'),
        ('scheduling', '0015_attempts_metered'),
        ('scheduling', '0016_attempts_not_metered'),
        ('scheduling', '0017_past_charges'),
        ('scheduling', '0018_usage_intervals'),
        ('scheduling', '0019_idle_actions'),
        ('scheduling', '0020_idle_stretches'),
        ('scheduling', '0021_scaled_attempts'),
        ('scheduling', '0022_allocation_granted_at'),
        ('scheduling', '0023_decision_grow'),
        ('scheduling', '0024_slice_use'),
        ('scheduling', '0025_cell_forecasts'),
        ('scheduling', '0026_start_predictions'),
        ('scheduling', '0027_policy_replays'),
    ]

    initial = True

    dependencies = [
        ('clusters', '0001_schema'),
        ('quotas', '0001_schema'),
        ('tenants', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='PriorityClass',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('value', models.IntegerField()),
                ('description', models.CharField(blank=True, default='', max_length=200)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.tenant')),
                ('queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='quotas.queue')),
                ('name', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('batch', 'Batch'), ('pytorch', 'PyTorch'), ('mpi', 'MPI'), ('notebook', 'Notebook'), ('service', 'Service')], default='batch', max_length=10)),
                ('state', models.CharField(choices=[('submitted', 'Submitted'), ('queued', 'Queued'), ('suspended', 'Suspended'), ('admitted', 'Admitted'), ('starting', 'Starting'), ('running', 'Running'), ('evicting', 'Evicting'), ('stopping', 'Stopping'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=10)),
                ('submitted_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('priority_class', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduling.priorityclass')),
                ('priority', models.IntegerField(default=0)),
                ('preemptible', models.BooleanField(default=True)),
                ('min_available', models.PositiveIntegerField()),
                ('min_run_s', models.PositiveIntegerField(default=0)),
                ('max_run_s', models.PositiveIntegerField(blank=True, null=True)),
                ('checkpoint_interval_s', models.PositiveIntegerField(blank=True, null=True)),
                ('placement', models.JSONField(blank=True, default=dict)),
                ('lifecycle', models.JSONField(blank=True, default=list)),
                ('environment', models.JSONField(blank=True, default=dict)),
                ('volumes', models.JSONField(blank=True, default=list)),
                ('runtime', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict)),
                ('simulate', models.JSONField(blank=True, default=dict)),
                ('submitted_at', models.DateTimeField(db_index=True)),
                ('admitted_at', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('deadline_at', models.DateTimeField(blank=True, help_text='start plus max_run_s', null=True)),
                ('attempt_number', models.PositiveIntegerField(default=0)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('backoff_until', models.DateTimeField(blank=True, null=True)),
                ('after_eviction', models.CharField(blank=True, default='', max_length=10)),
                ('end_reason', models.CharField(blank=True, default='', max_length=40)),
                ('reason', models.CharField(blank=True, default=foundation.core.reasons.Reason['PENDING_EVALUATION'], max_length=30)),
                ('reason_numbers', models.JSONField(blank=True, default=dict)),
                ('reason_help', models.JSONField(blank=True, default=list)),
                ('reason_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['priority_class', 'workspace', '-submitted_at', '-id'], name='job_by_class_and_time'), models.Index(fields=['workspace', 'name', 'id'], name='job_by_name'), models.Index(fields=['workspace', 'submitted_by', '-submitted_at', '-id'], name='job_by_owner_and_time'), models.Index(fields=['workspace', 'priority', 'id'], name='job_by_priority'), models.Index(fields=['queue', '-submitted_at', '-id'], name='job_by_queue_and_time'), models.Index(fields=['workspace', 'state', 'id'], name='job_by_state'), models.Index(fields=['workspace', 'state', '-submitted_at', '-id'], name='job_by_state_and_time'), models.Index(fields=['workspace', '-submitted_at', '-id', 'name'], name='job_by_time'), models.Index(fields=['state', 'queue'], name='scheduling__state_edd70f_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ('succeeded', 'failed', 'cancelled')), _negated=True), fields=('workspace', 'name'), name='job_name_once_among_live')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='scheduling.job')),
                ('number', models.PositiveIntegerField()),
                ('epoch', models.PositiveBigIntegerField()),
                ('admitted_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('end_reason', models.CharField(blank=True, default='', max_length=40)),
                ('borrowed', models.JSONField(blank=True, default=dict)),
                ('gathered_at', models.DateTimeField(blank=True, null=True)),
                ('scaled_at', models.DateTimeField(blank=True, null=True)),
                ('shrinks', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('metered_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['end_reason', 'ended_at'], name='attempt_by_end'), models.Index(condition=models.Q(('gathered_at__isnull', False)), fields=['ended_at'], name='attempt_gathered'), models.Index(condition=models.Q(('metered_at__isnull', True)), fields=['ended_at'], name='attempt_not_metered')],
                'constraints': [models.UniqueConstraint(fields=('job', 'number'), name='attempt_number_once_per_job'), models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('job',), name='attempt_one_live_per_job')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Claim',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='claim', to='scheduling.job')),
                ('content', models.JSONField(help_text='flavor, charge and placement as the engine decided them')),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='IdleStretch',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='idle_stretch', to='scheduling.job')),
                ('attempt_number', models.PositiveIntegerField()),
                ('since', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('limit_s', models.PositiveIntegerField(blank=True, null=True)),
                ('action', models.CharField(choices=[('suspend', 'Suspend the job'), ('shrink', 'Scale the job down to its minimum'), ('preemptible', 'Make the job preemptible')], default='suspend', max_length=12)),
                ('warn_s', models.PositiveIntegerField(default=0)),
                ('warned_at', models.DateTimeField(blank=True, null=True)),
                ('notified_at', models.DateTimeField(blank=True, null=True)),
                ('extended_until', models.DateTimeField(blank=True, null=True)),
                ('extensions', models.PositiveSmallIntegerField(default=0)),
                ('acted_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='JobEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='scheduling.job')),
                ('at', models.DateTimeField()),
                ('code', models.CharField(max_length=40)),
                ('actor', models.CharField(blank=True, default='', max_length=150)),
                ('numbers', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['job', 'id'], name='scheduling__job_id_8a1e38_idx')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='JobRole',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='scheduling.job')),
                ('position', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=40)),
                ('replicas', models.PositiveIntegerField()),
                ('min_replicas', models.PositiveIntegerField()),
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('gpu_mode', models.CharField(choices=[('none', 'No GPU'), ('whole', 'Whole card'), ('slice', 'Slice'), ('mig', 'MIG instance')], max_length=10)),
                ('gpu_cards', models.PositiveSmallIntegerField(default=0)),
                ('gpu_cores', models.PositiveSmallIntegerField(default=0)),
                ('gpu_memory_mib', models.PositiveIntegerField(blank=True, null=True)),
                ('gpu_memory_percent', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('gpu_models', models.JSONField(blank=True, default=list)),
                ('gpu_profile', models.CharField(blank=True, default='', max_length=40)),
                ('image', models.CharField(blank=True, default='', max_length=300)),
                ('command', models.JSONField(blank=True, default=list)),
                ('container', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict)),
            ],
            options={
                'ordering': ['position'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(('min_replicas__gte', 1), ('min_replicas__lte', models.F('replicas'))), name='role_min_replicas_within_replicas'), models.UniqueConstraint(fields=('job', 'name'), name='role_name_once_per_job')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='scheduling.job')),
                ('role', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='scheduling.jobrole')),
                ('index', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('bound', 'Bound'), ('starting', 'Starting'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('leaving', 'Leaving'), ('gone', 'Gone')], default='waiting', max_length=10)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('message', models.TextField(blank=True, default='')),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('role', 'index'), name='task_index_once_per_role')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='scheduling.attempt')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='scheduling.task')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='clusters.node')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='clusters.flavor')),
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('charge', models.JSONField(help_text='resource -> amount taken from the ledger')),
                ('granted_at', models.DateTimeField(blank=True, null=True)),
                ('past_charges', models.JSONField(blank=True, null=True)),
                ('revision', models.PositiveIntegerField(db_default=0, default=0)),
                ('namespace', models.CharField(max_length=63)),
                ('pod_name', models.CharField(max_length=63)),
                ('pod_uid', models.CharField(blank=True, default='', max_length=64)),
                ('restarts', models.PositiveIntegerField(default=0)),
                ('restarting', models.BooleanField(default=False)),
                ('restarting_role', models.BooleanField(db_default=False, default=False)),
                ('ensured_at', models.DateTimeField(blank=True, null=True)),
                ('ensure_failures', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('ensure_after', models.DateTimeField(blank=True, null=True)),
                ('removal_asked_at', models.DateTimeField(blank=True, null=True)),
                ('removal_sent_at', models.DateTimeField(blank=True, null=True)),
                ('removed_at', models.DateTimeField(blank=True, null=True)),
                ('released_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(condition=models.Q(('released_at__isnull', True)), fields=['node'], name='allocation_live_node'), models.Index(condition=models.Q(('removed_at__isnull', True)), fields=['created_at'], name='allocation_not_removed')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('released_at__isnull', True)), fields=('task',), name='allocation_one_live_per_task'), models.UniqueConstraint(fields=('namespace', 'pod_name'), name='allocation_pod_name_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='MemoryResize',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='resizes', to='scheduling.allocation')),
                ('asked_by', models.CharField(max_length=150)),
                ('from_mib', models.PositiveIntegerField()),
                ('to_mib', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('asked', 'Asked'), ('taking_back', 'Taking back'), ('done', 'Done'), ('refused', 'Refused'), ('ended', 'Ended')], default='asked', max_length=12)),
                ('code', models.CharField(blank=True, default='', max_length=60)),
                ('message', models.CharField(blank=True, default='', max_length=300)),
                ('deadline_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('allocation',), name='resize_one_live_per_task')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PolicyReplay',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='policy_replays', to='clusters.cell')),
                ('name', models.CharField(max_length=100)),
                ('actor_id', models.UUIDField(null=True)),
                ('actor_name', models.CharField(max_length=150)),
                ('begin_at', models.DateTimeField()),
                ('end_at', models.DateTimeField()),
                ('change', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('canceled', 'Canceled')], default='pending', max_length=10)),
                ('progress', models.PositiveSmallIntegerField(default=0)),
                ('runs', models.PositiveSmallIntegerField(default=0)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('seconds', models.FloatField(default=0.0)),
                ('error', models.CharField(blank=True, default='', max_length=20)),
                ('result', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['-created_at', '-id'], name='policy_replay_by_time'), models.Index(condition=models.Q(('state__in', ('pending', 'running'))), fields=['created_at'], name='policy_replay_open')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PriorityGrant',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='priority_grants', to='tenants.tenant')),
                ('priority_class', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='scheduling.priorityclass')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'priority_class'), name='priority_grant_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SliceUse',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='slice_use', to='scheduling.allocation')),
                ('asked_mib', models.PositiveIntegerField()),
                ('since', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('peak_mib', models.PositiveIntegerField()),
                ('recent_mib', models.PositiveIntegerField()),
                ('wanted_mib', models.PositiveIntegerField(blank=True, null=True)),
                ('lent_at', models.DateTimeField(blank=True, null=True)),
                ('returned_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='StartPrediction',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='start_predictions', to='scheduling.job')),
                ('queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='start_predictions', to='quotas.queue')),
                ('made_at', models.DateTimeField()),
                ('first', models.BooleanField()),
                ('low_s', models.PositiveIntegerField(blank=True, null=True)),
                ('likely_low_s', models.PositiveIntegerField(blank=True, null=True)),
                ('median_s', models.PositiveIntegerField(blank=True, null=True)),
                ('likely_high_s', models.PositiveIntegerField(blank=True, null=True)),
                ('high_s', models.PositiveIntegerField(blank=True, null=True)),
                ('simulated', models.JSONField(default=list)),
                ('horizon_s', models.PositiveIntegerField()),
                ('futures', models.PositiveIntegerField()),
                ('runs', models.PositiveIntegerField()),
                ('run_group', models.CharField(max_length=20)),
                ('outcomes', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['closed_at'], name='start_prediction_closed'), models.Index(condition=models.Q(('first', True)), fields=['queue', '-closed_at'], name='start_prediction_first'), models.Index(condition=models.Q(('closed_at__isnull', True)), fields=['job'], name='start_prediction_open')],
                'constraints': [models.UniqueConstraint(fields=('job', 'made_at'), name='start_prediction_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='UsageInterval',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('workspace_id', models.UUIDField()),
                ('queue_id', models.UUIDField()),
                ('user_id', models.UUIDField()),
                ('job_id', models.UUIDField()),
                ('job_name', models.CharField(max_length=63)),
                ('attempt_id', models.UUIDField()),
                ('flavor_id', models.UUIDField()),
                ('sliced', models.BooleanField()),
                ('begin_ms', models.BigIntegerField()),
                ('end_ms', models.BigIntegerField()),
                ('cores', models.BigIntegerField()),
                ('billed', models.BigIntegerField()),
                ('borrowed', models.BigIntegerField()),
                ('lost', models.BigIntegerField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['end_ms', 'begin_ms'], name='usage_interval_time'), models.Index(fields=['workspace_id', 'end_ms'], name='usage_interval_workspace')],
                'constraints': [models.UniqueConstraint(fields=('attempt_id', 'flavor_id', 'sliced', 'begin_ms'), name='usage_interval_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='UserUsage',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='user_usage', to='quotas.queue')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_usage', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('consumed', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('queue', 'user'), name='user_usage_once_per_queue')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='WorkspacePolicy',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tenant', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='workspace_policy', to='tenants.tenant')),
                ('defaults', models.JSONField(blank=True, default=dict)),
                ('minimum', models.JSONField(blank=True, default=dict)),
                ('maximum', models.JSONField(blank=True, default=dict)),
                ('images', models.JSONField(blank=True, null=True)),
                ('allowed', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict)),
                ('idle_timeout_s', models.PositiveIntegerField(blank=True, null=True)),
                ('idle_action', models.CharField(choices=[('suspend', 'Suspend the job'), ('shrink', 'Scale the job down to its minimum'), ('preemptible', 'Make the job preemptible')], db_default='suspend', default='suspend', max_length=12)),
                ('idle_warn_s', models.PositiveIntegerField(db_default=600, default=600)),
                ('start_limit_s', models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='CellForecast',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cell', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='cell_forecast', to='clusters.cell')),
                ('begun_at', models.DateTimeField(blank=True, null=True)),
                ('made_at', models.DateTimeField(blank=True, null=True)),
                ('result', models.CharField(blank=True, choices=[('done', 'Done'), ('no_history', 'Too few finished runs'), ('out_of_time', 'Took too long'), ('failed', 'Failed')], default='', max_length=12)),
                ('futures', models.PositiveIntegerField(default=0)),
                ('runs', models.PositiveIntegerField(default=0)),
                ('waiting', models.PositiveIntegerField(default=0)),
                ('seconds', models.FloatField(default=0.0)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='clusters.cell')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='scheduling.job')),
                ('cycle', models.PositiveBigIntegerField()),
                ('epoch', models.PositiveBigIntegerField()),
                ('beneficiary', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='made_way_by', to='scheduling.job')),
                ('kind', models.CharField(choices=[('admit', 'Admit'), ('evict', 'Evict'), ('shrink', 'Shrink'), ('grow', 'Grow'), ('migrate', 'Migrate'), ('park', 'Park')], max_length=10)),
                ('code', models.CharField(blank=True, default='', max_length=30)),
                ('numbers', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['job', '-created_at'], name='scheduling__job_id_36ce83_idx')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='DeviceSlice',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slices', to='scheduling.allocation')),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='slices', to='clusters.device')),
                ('cores', models.PositiveSmallIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('wanted_mib', models.PositiveIntegerField(blank=True, null=True)),
                ('exclusive', models.BooleanField()),
                ('released', models.BooleanField(default=False)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('exclusive', True), ('released', False)), fields=('device',), name='device_one_exclusive_holder'), models.UniqueConstraint(fields=('allocation', 'device'), name='slice_once_per_card')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.RunPython(add_classes, migrations.RunPython.noop),
        migrations.RunPython(tune_tables, release_tables),
    ]
