import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.db import migrations, models


class Migration(migrations.Migration):
    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('telemetry', '0001_initial'),
    ]

    initial = True

    dependencies = [
        ('clusters', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('scope', models.CharField(choices=[('cluster', 'Cluster'), ('node', 'Node'), ('card', 'Card'), ('slice', 'Slice')], max_length=7)),
                ('cluster_id', models.UUIDField()),
                ('node_id', models.UUIDField(null=True)),
                ('device_id', models.UUIDField(null=True)),
                ('allocation_id', models.UUIDField(null=True)),
                ('task_id', models.UUIDField(null=True)),
                ('job_id', models.UUIDField(null=True)),
                ('workspace_id', models.UUIDField(null=True)),
                ('user_id', models.UUIDField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(condition=models.Q(('allocation_id__isnull', True)), fields=['cluster_id'], name='channel_cluster'), models.Index(fields=['device_id'], name='channel_card'), models.Index(fields=['job_id'], name='channel_job')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('node_id__isnull', True)), fields=('cluster_id',), name='channel_once_per_cluster'), models.UniqueConstraint(condition=models.Q(('device_id__isnull', True)), fields=('node_id',), name='channel_once_per_node'), models.UniqueConstraint(condition=models.Q(('allocation_id__isnull', True)), fields=('node_id', 'device_id'), name='channel_once_per_card'), models.UniqueConstraint(fields=('allocation_id', 'device_id'), name='channel_once_per_slice'), models.CheckConstraint(condition=models.Q(models.Q(('allocation_id__isnull', True), ('device_id__isnull', True), ('node_id__isnull', True), ('scope', 'cluster')), models.Q(('allocation_id__isnull', True), ('device_id__isnull', True), ('node_id__isnull', False), ('scope', 'node')), models.Q(('allocation_id__isnull', True), ('device_id__isnull', False), ('node_id__isnull', False), ('scope', 'card')), models.Q(('allocation_id__isnull', False), ('device_id__isnull', False), ('node_id__isnull', False), ('scope', 'slice')), _connector='OR'), name='channel_scope_matches_ids')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='TelemetryGap',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('cause', models.CharField(choices=[('unreachable', 'The cluster did not answer'), ('empty', 'The cluster answered without any reading')], max_length=20)),
                ('message', models.CharField(blank=True, default='', max_length=300)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='telemetry_gaps', to='clusters.cluster')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['cluster', 'started_at'], name='gap_cluster_start')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('cluster',), name='gap_one_open_per_cluster')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('cores_used', models.FloatField()),
                ('cores_allocated', models.IntegerField()),
                ('memory_used_mib', models.IntegerField()),
                ('memory_allocated_mib', models.IntegerField()),
                ('temperature_c', models.FloatField(null=True)),
                ('power_w', models.FloatField(null=True)),
                ('channel', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['at_ms'], name='reading_at')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'at_ms'), name='reading_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='RollUp',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('count', models.IntegerField()),
                ('cores_used', models.FloatField()),
                ('cores_used_min', models.FloatField()),
                ('cores_used_max', models.FloatField()),
                ('memory_used_mib', models.FloatField()),
                ('memory_used_mib_min', models.FloatField()),
                ('memory_used_mib_max', models.FloatField()),
                ('cores_allocated', models.FloatField()),
                ('memory_allocated_mib', models.FloatField()),
                ('temperature_c', models.FloatField(null=True)),
                ('temperature_max_c', models.FloatField(null=True)),
                ('power_w', models.FloatField(null=True)),
                ('power_w_max', models.FloatField(null=True)),
                ('cards', models.FloatField(null=True)),
                ('cards_sampled', models.FloatField(null=True)),
                ('cards_allocated', models.FloatField(null=True)),
                ('memory_capacity_mib', models.FloatField(null=True)),
                ('channel', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['at_ms'], name='roll_up_at')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'at_ms'), name='roll_up_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Tick',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('cards', models.IntegerField()),
                ('cards_sampled', models.IntegerField()),
                ('cards_allocated', models.IntegerField()),
                ('cores_used', models.FloatField()),
                ('cores_allocated', models.IntegerField()),
                ('memory_capacity_mib', models.BigIntegerField()),
                ('memory_used_mib', models.BigIntegerField()),
                ('memory_allocated_mib', models.BigIntegerField()),
                ('temperature_c', models.FloatField(null=True)),
                ('temperature_max_c', models.FloatField(null=True)),
                ('power_w', models.FloatField(null=True)),
                ('channel', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['at_ms'], name='tick_at')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'at_ms'), name='tick_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
