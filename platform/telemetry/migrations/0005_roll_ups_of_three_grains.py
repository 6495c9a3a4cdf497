import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0004_ticks_of_any_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='GpuEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('cluster_id', models.UUIDField()),
                ('node_id', models.UUIDField()),
                ('device_uuid', models.CharField(blank=True, max_length=80)),
                ('kind', models.CharField(choices=[('xid', 'xid'), ('lost', 'lost'), ('reset-required', 'reset-required'), ('driver-mismatch', 'driver-mismatch'), ('enumerated', 'enumerated')], max_length=20)),
                ('code', models.IntegerField()),
                ('at_ms', models.BigIntegerField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='GpuProcess',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('cluster_id', models.UUIDField()),
                ('node_id', models.UUIDField()),
                ('device_id', models.UUIDField()),
                ('pid', models.BigIntegerField()),
                ('name', models.CharField(max_length=128)),
                ('pod_uid', models.CharField(blank=True, max_length=64)),
                ('container_id', models.CharField(blank=True, max_length=64)),
                ('allocation_id', models.UUIDField(null=True)),
                ('job_id', models.UUIDField(null=True)),
                ('workspace_id', models.UUIDField(null=True)),
                ('first_seen_ms', models.BigIntegerField()),
                ('last_seen_ms', models.BigIntegerField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PendingBucket',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('cluster_id', models.UUIDField()),
                ('grain_ms', models.IntegerField()),
                ('at_ms', models.BigIntegerField()),
                ('token', models.BigIntegerField()),
                ('sums', models.BooleanField(default=False)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='RolledMinute',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('count', models.IntegerField()),
                ('covered_ms', models.IntegerField()),
                ('cores_used', models.FloatField(null=True)),
                ('cores_used_min', models.FloatField(null=True)),
                ('cores_used_max', models.FloatField(null=True)),
                ('memory_used_mib', models.FloatField(null=True)),
                ('memory_used_mib_min', models.FloatField(null=True)),
                ('memory_used_mib_max', models.FloatField(null=True)),
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
                ('values', models.BinaryField(null=True)),
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
            name='RolledTenMinutes',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('count', models.IntegerField()),
                ('covered_ms', models.IntegerField()),
                ('cores_used', models.FloatField(null=True)),
                ('cores_used_min', models.FloatField(null=True)),
                ('cores_used_max', models.FloatField(null=True)),
                ('memory_used_mib', models.FloatField(null=True)),
                ('memory_used_mib_min', models.FloatField(null=True)),
                ('memory_used_mib_max', models.FloatField(null=True)),
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
                ('values', models.BinaryField(null=True)),
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
            name='RolledTwoHours',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at_ms', models.BigIntegerField()),
                ('count', models.IntegerField()),
                ('covered_ms', models.IntegerField()),
                ('cores_used', models.FloatField(null=True)),
                ('cores_used_min', models.FloatField(null=True)),
                ('cores_used_max', models.FloatField(null=True)),
                ('memory_used_mib', models.FloatField(null=True)),
                ('memory_used_mib_min', models.FloatField(null=True)),
                ('memory_used_mib_max', models.FloatField(null=True)),
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
                ('values', models.BinaryField(null=True)),
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
        migrations.AlterField(
            model_name='telemetrygap',
            name='cause',
            field=models.CharField(choices=[('unreachable', 'The cluster did not answer'), ('empty', 'The cluster answered without any reading'), ('platform', 'The platform did not run')], max_length=20),
        ),
        migrations.AddIndex(
            model_name='gpuevent',
            index=models.Index(fields=['at_ms'], name='gpu_event_at'),
        ),
        migrations.AddConstraint(
            model_name='gpuevent',
            constraint=models.UniqueConstraint(fields=('node_id', 'at_ms', 'device_uuid', 'kind', 'code'), name='gpu_event_once'),
        ),
        migrations.AddIndex(
            model_name='gpuprocess',
            index=models.Index(fields=['node_id', 'last_seen_ms'], name='process_of_node'),
        ),
        migrations.AddIndex(
            model_name='gpuprocess',
            index=models.Index(fields=['last_seen_ms'], name='process_last_seen'),
        ),
        migrations.AddConstraint(
            model_name='pendingbucket',
            constraint=models.UniqueConstraint(fields=('grain_ms', 'at_ms', 'cluster_id'), name='pending_once'),
        ),
        migrations.AddField(
            model_name='rolledminute',
            name='channel',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel'),
        ),
        migrations.AddField(
            model_name='rolledtenminutes',
            name='channel',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel'),
        ),
        migrations.AddField(
            model_name='rolledtwohours',
            name='channel',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='telemetry.channel'),
        ),
        migrations.AddIndex(
            model_name='rolledminute',
            index=models.Index(fields=['at_ms'], name='minute_at'),
        ),
        migrations.AddConstraint(
            model_name='rolledminute',
            constraint=models.UniqueConstraint(fields=('channel', 'at_ms'), name='minute_once'),
        ),
        migrations.AddIndex(
            model_name='rolledtenminutes',
            index=models.Index(fields=['at_ms'], name='ten_minutes_at'),
        ),
        migrations.AddConstraint(
            model_name='rolledtenminutes',
            constraint=models.UniqueConstraint(fields=('channel', 'at_ms'), name='ten_minutes_once'),
        ),
        migrations.AddIndex(
            model_name='rolledtwohours',
            index=models.Index(fields=['at_ms'], name='two_hours_at'),
        ),
        migrations.AddConstraint(
            model_name='rolledtwohours',
            constraint=models.UniqueConstraint(fields=('channel', 'at_ms'), name='two_hours_once'),
        ),
    ]
