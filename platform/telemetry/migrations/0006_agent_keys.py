import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0020_cells_note_lost_gpu_time'),
        ('telemetry', '0005_roll_ups_of_three_grains'),
    ]

    operations = [
        migrations.CreateModel(
            name='AgentKey',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('prefix', models.CharField(max_length=16, unique=True)),
                ('secret_hash', models.CharField(max_length=64)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('manual', models.BooleanField(default=False)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agent_keys', to='clusters.node')),
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
            name='NodeAgent',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('seen_at', models.DateTimeField()),
                ('interval_ms', models.IntegerField(default=15000)),
                ('inventory_at', models.DateTimeField(blank=True, null=True)),
                ('driver', models.CharField(blank=True, default='', max_length=80)),
                ('nvml', models.CharField(blank=True, default='', max_length=80)),
                ('cuda', models.CharField(blank=True, default='', max_length=20)),
                ('devices', models.JSONField(blank=True, default=list)),
                ('unsupported', models.JSONField(blank=True, default=dict)),
                ('node', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='agent', to='clusters.node')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['seen_at'], name='node_agent_seen')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
