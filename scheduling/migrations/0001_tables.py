import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.conf import settings
from django.db import migrations, models


CLASSES = (("low", -50), ("normal", 0), ("high", 100))


def add_classes(apps, schema_editor):
    """Every installation has the three usual priority classes; `high` has to be granted."""
    priority_class = apps.get_model("scheduling", "PriorityClass")
    for name, value in CLASSES:
        priority_class._base_manager.get_or_create(name=name, defaults={"value": value})


class Migration(migrations.Migration):
    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('scheduling', '0001_initial'),
        ('scheduling', '0002_initial'),
        ('scheduling', '0003_priority_classes'),
        ('scheduling', '0004_mig_profiles'),
        ('scheduling', '0005_evictions_and_user_usage'),
        ('scheduling', '0006_idempotency'),
        ('scheduling', '0007_workspace_policy'),
        ('scheduling', '0008_settings_by_people'),
        ('scheduling', '0009_lists_read_from_indexes'),
    ]

    initial = True

    dependencies = [
        ('clusters', '0001_tables'),
        ('quotas', '0001_tables'),
        ('tenants', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='PriorityClass',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('value', models.IntegerField()),
                ('description', models.CharField(blank=True, default='', max_length=200)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
                ('version', models.PositiveBigIntegerField(default=0)),
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
            name='UserUsage',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('at', models.DateTimeField()),
                ('consumed', models.JSONField(blank=True, default=dict)),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='user_usage', to='quotas.queue')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_usage', to=settings.AUTH_USER_MODEL)),
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
                ('version', models.PositiveBigIntegerField(default=0)),
                ('defaults', models.JSONField(blank=True, default=dict)),
                ('minimum', models.JSONField(blank=True, default=dict)),
                ('maximum', models.JSONField(blank=True, default=dict)),
                ('images', models.JSONField(blank=True, null=True)),
                ('idle_timeout_s', models.PositiveIntegerField(blank=True, null=True)),
                ('tenant', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='workspace_policy', to='tenants.tenant')),
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
                ('name', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('batch', 'Batch'), ('pytorch', 'PyTorch'), ('mpi', 'MPI'), ('notebook', 'Notebook'), ('service', 'Service')], default='batch', max_length=10)),
                ('state', models.CharField(choices=[('submitted', 'Submitted'), ('queued', 'Queued'), ('suspended', 'Suspended'), ('admitted', 'Admitted'), ('starting', 'Starting'), ('running', 'Running'), ('evicting', 'Evicting'), ('stopping', 'Stopping'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=10)),
                ('version', models.PositiveBigIntegerField(default=0)),
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
                ('reason', models.CharField(blank=True, default='PENDING_EVALUATION', max_length=30)),
                ('reason_numbers', models.JSONField(blank=True, default=dict)),
                ('reason_help', models.JSONField(blank=True, default=list)),
                ('reason_at', models.DateTimeField(blank=True, null=True)),
                ('queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='quotas.queue')),
                ('submitted_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.tenant')),
                ('priority_class', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduling.priorityclass')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['state', 'queue'], name='scheduling__state_edd70f_idx'), models.Index(fields=['workspace', '-submitted_at', '-id', 'name'], name='job_by_time'), models.Index(fields=['workspace', 'state', '-submitted_at', '-id'], name='job_by_state_and_time'), models.Index(fields=['workspace', 'submitted_by', '-submitted_at', '-id'], name='job_by_owner_and_time'), models.Index(fields=['queue', '-submitted_at', '-id'], name='job_by_queue_and_time'), models.Index(fields=['workspace', 'name', 'id'], name='job_by_name'), models.Index(fields=['workspace', 'priority', 'id'], name='job_by_priority'), models.Index(fields=['workspace', 'state', 'id'], name='job_by_state')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ('succeeded', 'failed', 'cancelled')), _negated=True), fields=('workspace', 'name'), name='job_name_once_among_live')],
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
                ('priority_class', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='scheduling.priorityclass')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='priority_grants', to='tenants.tenant')),
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
            name='Attempt',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('number', models.PositiveIntegerField()),
                ('epoch', models.PositiveBigIntegerField()),
                ('admitted_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('end_reason', models.CharField(blank=True, default='', max_length=40)),
                ('borrowed', models.JSONField(blank=True, default=dict)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='scheduling.job')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
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
                ('content', models.JSONField(help_text='flavor, charge and placement as the engine decided them')),
                ('expires_at', models.DateTimeField()),
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='claim', to='scheduling.job')),
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
                ('at', models.DateTimeField()),
                ('code', models.CharField(max_length=40)),
                ('actor', models.CharField(blank=True, default='', max_length=150)),
                ('numbers', models.JSONField(blank=True, default=dict)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='scheduling.job')),
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
                ('image', models.CharField(blank=True, default='', max_length=300)),
                ('command', models.JSONField(blank=True, default=list)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='scheduling.job')),
                ('gpu_profile', models.CharField(blank=True, default='', max_length=40)),
            ],
            options={
                'ordering': ['position'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('job', 'name'), name='role_name_once_per_job'), models.CheckConstraint(condition=models.Q(('min_replicas__gte', 1), ('min_replicas__lte', models.F('replicas'))), name='role_min_replicas_within_replicas')],
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
                ('cycle', models.PositiveBigIntegerField()),
                ('epoch', models.PositiveBigIntegerField()),
                ('kind', models.CharField(choices=[('admit', 'Admit'), ('evict', 'Evict'), ('shrink', 'Shrink'), ('migrate', 'Migrate'), ('park', 'Park')], max_length=10)),
                ('code', models.CharField(blank=True, default='', max_length=30)),
                ('numbers', models.JSONField(blank=True, default=dict)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='clusters.cell')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='scheduling.job')),
                ('beneficiary', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='made_way_by', to='scheduling.job')),
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
            name='Task',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('index', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('bound', 'Bound'), ('starting', 'Starting'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('leaving', 'Leaving'), ('gone', 'Gone')], default='waiting', max_length=10)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('message', models.TextField(blank=True, default='')),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='scheduling.job')),
                ('role', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='scheduling.jobrole')),
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
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('charge', models.JSONField(help_text='resource -> amount taken from the ledger')),
                ('namespace', models.CharField(max_length=63)),
                ('pod_name', models.CharField(max_length=63)),
                ('pod_uid', models.CharField(blank=True, default='', max_length=64)),
                ('restarts', models.PositiveIntegerField(default=0)),
                ('restarting', models.BooleanField(default=False)),
                ('ensured_at', models.DateTimeField(blank=True, null=True)),
                ('removal_asked_at', models.DateTimeField(blank=True, null=True)),
                ('removal_sent_at', models.DateTimeField(blank=True, null=True)),
                ('removed_at', models.DateTimeField(blank=True, null=True)),
                ('released_at', models.DateTimeField(blank=True, null=True)),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='clusters.flavor')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='clusters.node')),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='scheduling.attempt')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='scheduling.task')),
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
            name='DeviceSlice',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cores', models.PositiveSmallIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('exclusive', models.BooleanField()),
                ('released', models.BooleanField(default=False)),
                ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slices', to='scheduling.allocation')),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='slices', to='clusters.device')),
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
    ]
