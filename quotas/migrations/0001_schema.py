import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
import quotas.models.budget
import quotas.models.quota
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('quotas', '0001_tables'),
        ('quotas', '0002_budgets_that_stop_jobs'),
        ('quotas', '0003_queues_are_closed'),
        ('quotas', '0004_columns_have_database_defaults'),
        ('quotas', '0005_loans_know_what_was_there'),
        ('quotas', '0006_quota_passed_on'),
        ('quotas', '0007_limits_of_queues_stand'),
        ('quotas', '0008_own_nominal'),
        ('quotas', '0009_reserved'),
        ('quotas', '0010_notified_thresholds'),
        ('quotas', '0011_limits_decided'),
    ]

    initial = True

    dependencies = [
        ('clusters', '0001_schema'),
        ('tenants', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuotaNode',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quota_nodes', to='clusters.cell')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quota_nodes', to='tenants.tenant')),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='quotas.quotanode')),
                ('is_queue', models.BooleanField(default=False)),
                ('limits_decided', models.BooleanField(db_column='limits_stand', db_default=False, default=True)),
                ('weight', models.PositiveIntegerField(default=1000, help_text='thousandths; 1000 is an even share')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('is_queue', False)), fields=('cell', 'tenant'), name='quota_node_once_per_tenant'), models.UniqueConstraint(condition=models.Q(('parent__isnull', True)), fields=('cell',), name='quota_tree_has_one_root')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='GpuUse',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpu_use', to='quotas.quotanode')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpu_use', to='clusters.flavor')),
                ('month', models.DateField()),
                ('core_ms', models.BigIntegerField()),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('node', 'flavor', 'month'), name='gpu_use_once_per_month')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ledger', to='quotas.quotanode')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ledger', to='clusters.flavor')),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('reserved', models.BigIntegerField(db_column='used', default=0)),
                ('month', models.DateField(default=quotas.models.quota._this_month)),
                ('core_ms', models.BigIntegerField(default=0)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('node', 'flavor', 'resource'), name='ledger_once_per_resource'), models.CheckConstraint(condition=models.Q(('reserved__gte', 0)), name='ledger_used_not_negative')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='QuotaRevision',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quota_revisions', to='clusters.cell')),
                ('actor_id', models.UUIDField(null=True)),
                ('actor_name', models.CharField(max_length=150)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('source', models.CharField(choices=[('edit', 'Edited'), ('revert', 'Reverted'), ('import', 'Imported'), ('request', 'Request approved'), ('loan', 'Lent'), ('loan-returned', 'Loan returned')], default='edit', max_length=20)),
                ('on_top', models.BooleanField(default=False)),
                ('reverts', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='reverted_by', to='quotas.quotarevision')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Override',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='overrides', to='clusters.cell')),
                ('lender', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lent_out', to='quotas.quotanode')),
                ('borrower', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='borrowed_in', to='quotas.quotanode')),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('planned', 'Planned'), ('active', 'Active'), ('ended', 'Ended'), ('cancelled', 'Cancelled'), ('missed', 'Never started')], default='planned', max_length=10)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('actor_id', models.UUIDField(null=True)),
                ('actor_name', models.CharField(max_length=150)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('ended_by', models.CharField(blank=True, default='', max_length=150)),
                ('problem', models.CharField(blank=True, default='', max_length=1000)),
                ('returned', models.JSONField(blank=True, default=dict)),
                ('started_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='starts', to='quotas.quotarevision')),
                ('returned_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='returns', to='quotas.quotarevision')),
            ],
            options={
                'ordering': ['-starts_at', '-id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['state', 'ends_at'], name='override_due'), models.Index(fields=['cell', 'state'], name='override_of_cell')],
                'constraints': [models.CheckConstraint(condition=models.Q(('lender', models.F('borrower')), _negated=True), name='override_between_two'), models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='override_window_in_order')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='OverrideAmount',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('override', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='amounts', to='quotas.override')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='overrides', to='clusters.flavor')),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('amount', models.PositiveBigIntegerField()),
                ('started', models.JSONField(blank=True, null=True)),
            ],
            options={
                'ordering': ['id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('override', 'flavor', 'resource'), name='override_amount_once'), models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='override_amount_positive')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PassedQuota',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='passed_on', to='quotas.quotanode')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='passed_in', to='quotas.quotanode')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='passed_quota', to='clusters.flavor')),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('amount', models.PositiveBigIntegerField()),
            ],
            options={
                'ordering': ['id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('source', 'target', 'flavor', 'resource'), name='passed_quota_once'), models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='passed_quota_positive')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queues', to='clusters.cell')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queues', to='tenants.tenant')),
                ('node', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='queue', to='quotas.quotanode')),
                ('name', models.SlugField(max_length=63)),
                ('strategy', models.CharField(choices=[('best-effort-fifo', 'Best effort'), ('strict-fifo', 'Strict first in, first out')], default='best-effort-fifo', max_length=20)),
                ('stop_policy', models.CharField(choices=[('none', 'Open'), ('hold', 'On hold'), ('hold-and-drain', 'On hold, draining')], default='none', max_length=20)),
                ('allocation_mode', models.CharField(choices=[('dynamic', 'Dynamic'), ('static', 'Static')], default='dynamic', max_length=10)),
                ('preemption', models.BooleanField(default=True)),
                ('within_queue', models.CharField(choices=[('never', 'Never'), ('lower-priority', 'Lower priority'), ('lower-or-newer-equal-priority', 'Lower, or equal and newer')], default='lower-priority', max_length=30)),
                ('reclaim', models.CharField(choices=[('never', 'Never'), ('lower-priority', 'Lower priority'), ('any', 'Any')], default='any', max_length=20)),
                ('while_borrowing', models.CharField(choices=[('never', 'Never'), ('lower-priority', 'Lower priority'), ('any', 'Any')], default='never', max_length=20)),
                ('max_priority', models.IntegerField(blank=True, null=True)),
                ('when_can_borrow', models.CharField(choices=[('may-stop-search', 'Take it'), ('try-next-flavor', 'Try the next flavor')], default='may-stop-search', max_length=20)),
                ('when_can_preempt', models.CharField(choices=[('may-stop-search', 'Take it'), ('try-next-flavor', 'Try the next flavor')], default='try-next-flavor', max_length=20)),
                ('preference', models.CharField(choices=[('borrowing-over-preemption', 'Borrow rather than preempt'), ('preemption-over-borrowing', 'Preempt rather than borrow')], default='borrowing-over-preemption', max_length=30)),
                ('backfill', models.BooleanField(default=True)),
                ('user_shares', models.BooleanField(default=True)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('workspace', 'name'), name='queue_name_once_per_workspace')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='QueueFlavor',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_flavors', to='quotas.queue')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queue_flavors', to='clusters.flavor')),
                ('position', models.PositiveSmallIntegerField()),
            ],
            options={
                'ordering': ['position', 'id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('queue', 'flavor'), name='queue_flavor_once'), models.UniqueConstraint(fields=('queue', 'position'), name='queue_flavor_order_total')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='quotas.quotanode')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='clusters.flavor')),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('own_nominal', models.PositiveBigIntegerField(blank=True, db_column='nominal', null=True)),
                ('borrowing_limit', models.PositiveBigIntegerField(blank=True, null=True)),
                ('lending_limit', models.PositiveBigIntegerField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('node', 'flavor', 'resource'), name='quota_once_per_resource')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='QuotaChange',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('revision', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='quotas.quotarevision')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='quotas.quotanode')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quota_changes', to='clusters.flavor')),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('nominal_before', models.PositiveBigIntegerField(null=True)),
                ('nominal_after', models.PositiveBigIntegerField(null=True)),
                ('borrowing_before', models.PositiveBigIntegerField(null=True)),
                ('borrowing_after', models.PositiveBigIntegerField(null=True)),
                ('lending_before', models.PositiveBigIntegerField(null=True)),
                ('lending_after', models.PositiveBigIntegerField(null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['node', 'created_at'], name='quota_change_by_node')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='QuotaRequest',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='quotas.quotanode')),
                ('asker', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quota_requests', to=settings.AUTH_USER_MODEL)),
                ('reason', models.CharField(max_length=2000)),
                ('asked', models.JSONField()),
                ('current', models.JSONField()),
                ('counter', models.JSONField(blank=True, default=list)),
                ('until', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('pending', 'Waiting for a decision'), ('countered', 'Counter-offer made'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('declined', 'Counter-offer declined'), ('withdrawn', 'Withdrawn'), ('expired', 'Expired')], default='pending', max_length=10)),
                ('evidence', models.JSONField(blank=True, default=dict)),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decided_requests', to=settings.AUTH_USER_MODEL)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('answer', models.CharField(blank=True, default='', max_length=2000)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('revision', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='quotas.quotarevision')),
                ('override', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='quotas.override')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['state', 'expires_at'], name='quota_request_due')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ['pending', 'countered'])), fields=('node', 'asker'), name='quota_request_one_open')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='UserLimit',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='user_limits', to='tenants.tenant')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limits', to=settings.AUTH_USER_MODEL)),
                ('resource', models.CharField(choices=[('cpu', 'cpu'), ('memory', 'memory'), ('gpu.cards', 'gpu.cards'), ('gpu.cores', 'gpu.cores'), ('gpu.memory', 'gpu.memory')], max_length=20)),
                ('amount', models.PositiveBigIntegerField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'user', 'resource'), name='user_limit_once'), models.UniqueConstraint(condition=models.Q(('user__isnull', True)), fields=('workspace', 'resource'), name='user_limit_once_for_everybody')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='tenants.tenant')),
                ('flavor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='clusters.flavor')),
                ('gpu_hours', models.PositiveBigIntegerField()),
                ('thresholds', models.JSONField(default=quotas.models.budget._thresholds)),
                ('action', models.CharField(choices=[('warn', 'Warn only'), ('hold', 'Start nothing new'), ('preemptible-only', 'Start preemptible jobs only'), ('stop-preemptible', 'Start nothing new and stop preemptible jobs')], default='warn', max_length=20)),
                ('notified_month', models.DateField(blank=True, db_column='told_month', null=True)),
                ('notified_percent', models.PositiveSmallIntegerField(db_column='told_percent', default=0)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('flavor__isnull', True)), fields=('tenant',), name='budget_once_for_all_flavors'), models.UniqueConstraint(fields=('tenant', 'flavor'), name='budget_once_per_flavor')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddField(
            model_name='queue',
            name='flavors',
            field=models.ManyToManyField(related_name='queues', through='quotas.QueueFlavor', to='clusters.flavor'),
        ),
    ]
