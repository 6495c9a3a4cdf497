import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.db import migrations, models


class Migration(migrations.Migration):
    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('clusters', '0001_initial'),
        ('clusters', '0002_flavor_placement_default'),
    ]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Cell',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('lease_holder', models.CharField(blank=True, default='', max_length=100)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('epoch', models.PositiveBigIntegerField(default=0)),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('cycle_number', models.PositiveBigIntegerField(default=0)),
                ('last_cycle_at', models.DateTimeField(blank=True, null=True)),
                ('inventory_version', models.PositiveBigIntegerField(default=0)),
                ('quota_version', models.PositiveBigIntegerField(default=0)),
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
            name='Cluster',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('lease_holder', models.CharField(blank=True, default='', max_length=100)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('epoch', models.PositiveBigIntegerField(default=0)),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('backend', models.CharField(choices=[('simulated', 'Simulated'), ('kubernetes', 'Kubernetes')], max_length=20)),
                ('connection', models.JSONField(blank=True, default=dict)),
                ('health', models.CharField(choices=[('unknown', 'Unknown'), ('healthy', 'Healthy'), ('unreachable', 'Unreachable')], default='unknown', max_length=20)),
                ('health_message', models.TextField(blank=True, default='')),
                ('cursor', models.TextField(blank=True, default='')),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
                ('listed_at', models.DateTimeField(blank=True, null=True)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='clusters', to='clusters.cell')),
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
            name='Flavor',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.SlugField(max_length=63)),
                ('card_model', models.CharField(blank=True, default='', max_length=80)),
                ('card_memory_mib', models.PositiveIntegerField(default=0)),
                ('gpu_mode', models.CharField(choices=[('none', 'No GPU'), ('whole', 'Whole card'), ('slice', 'Slice'), ('mig', 'MIG')], default='whole', max_length=10)),
                ('node_selector', models.JSONField(blank=True, default=dict)),
                ('taints', models.JSONField(blank=True, default=list)),
                ('tolerations', models.JSONField(blank=True, default=list)),
                ('placement', models.CharField(choices=[('default', 'Default'), ('compact', 'Compact'), ('spread', 'Spread'), ('bestfit', 'Best fit'), ('dotprod', 'Dot product'), ('packing', 'GPU packing'), ('clustering', 'GPU clustering'), ('fgd', 'Fragmentation'), ('affinity', 'Affinity'), ('topology', 'Topology'), ('reuse', 'Reuse'), ('balance', 'Balance')], default='default', max_length=10)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='flavors', to='clusters.cluster')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('cluster', 'name'), name='flavor_name_once_per_cluster')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SimulatedCluster',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('anchors', models.JSONField(default=list)),
                ('last_change', models.PositiveBigIntegerField(default=0)),
                ('pruned_to', models.PositiveBigIntegerField(default=0)),
                ('pruned_at', models.DateTimeField(blank=True, null=True)),
                ('reachable', models.BooleanField(default=True)),
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='clusters.cluster')),
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
            name='Node',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('taints', models.JSONField(blank=True, default=list)),
                ('zone', models.CharField(blank=True, default='', max_length=63)),
                ('rack', models.CharField(blank=True, default='', max_length=63)),
                ('ready', models.BooleanField(default=True)),
                ('cordoned', models.BooleanField(default=False)),
                ('present', models.BooleanField(default=True)),
                ('not_ready_since', models.DateTimeField(blank=True, null=True)),
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('cpu_granted', models.PositiveIntegerField(default=0)),
                ('memory_granted', models.PositiveIntegerField(default=0)),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='nodes', to='clusters.cluster')),
                ('flavor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='nodes', to='clusters.flavor')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('cluster', 'name'), name='node_name_once_per_cluster')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SimulatedNode',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('taints', models.JSONField(blank=True, default=list)),
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('failed', models.BooleanField(default=False)),
                ('cordoned', models.BooleanField(default=False)),
                ('change', models.PositiveBigIntegerField()),
                ('changed_ms', models.BigIntegerField(default=0)),
                ('simulation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='nodes', to='clusters.simulatedcluster')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['simulation', 'change'], name='simulated_node_change')],
                'constraints': [models.UniqueConstraint(fields=('simulation', 'name'), name='simulated_node_name_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SimulatedPod',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('namespace', models.CharField(max_length=63)),
                ('name', models.CharField(max_length=253)),
                ('uid', models.CharField(max_length=36)),
                ('node_name', models.CharField(max_length=253)),
                ('cpu_millicores', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveIntegerField()),
                ('devices', models.JSONField(blank=True, default=list)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('image', models.CharField(blank=True, default='', max_length=500)),
                ('command', models.JSONField(blank=True, default=list)),
                ('start_ms', models.PositiveBigIntegerField()),
                ('run_ms', models.PositiveBigIntegerField(blank=True, null=True)),
                ('leave_permille', models.PositiveSmallIntegerField()),
                ('utilisation', models.FloatField()),
                ('exit_code', models.IntegerField(default=0)),
                ('phase', models.CharField(choices=[('pending', 'Pending'), ('starting', 'Starting'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('gone', 'Gone')], max_length=10)),
                ('holds', models.BooleanField(default=True)),
                ('terminating', models.BooleanField(default=False)),
                ('next_ms', models.BigIntegerField(blank=True, null=True)),
                ('frozen_ms', models.BigIntegerField(blank=True, null=True)),
                ('begun_ms', models.BigIntegerField()),
                ('started_ms', models.BigIntegerField(blank=True, null=True)),
                ('ended_ms', models.BigIntegerField(blank=True, null=True)),
                ('changed_ms', models.BigIntegerField()),
                ('change', models.PositiveBigIntegerField()),
                ('ended_code', models.IntegerField(blank=True, null=True)),
                ('reason', models.CharField(blank=True, default='', max_length=60)),
                ('message', models.CharField(blank=True, default='', max_length=300)),
                ('simulation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pods', to='clusters.simulatedcluster')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['simulation', 'next_ms'], name='simulated_pod_due'), models.Index(fields=['simulation', 'change'], name='simulated_pod_change'), models.Index(condition=models.Q(('holds', True)), fields=['simulation', 'node_name'], name='simulated_pod_holder')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('phase', 'gone'), _negated=True), fields=('simulation', 'namespace', 'name'), name='simulated_pod_name_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Device',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('uuid', models.CharField(max_length=80, unique=True)),
                ('index', models.PositiveSmallIntegerField()),
                ('model', models.CharField(max_length=80)),
                ('memory_mib', models.PositiveIntegerField()),
                ('mode', models.CharField(choices=[('none', 'No GPU'), ('whole', 'Whole card'), ('slice', 'Slice'), ('mig', 'MIG')], default='whole', max_length=10)),
                ('healthy', models.BooleanField(default=True)),
                ('cores_capacity', models.PositiveIntegerField(default=100)),
                ('memory_capacity', models.PositiveIntegerField()),
                ('cores_granted', models.PositiveIntegerField(default=0)),
                ('memory_granted', models.PositiveIntegerField(default=0)),
                ('holders', models.PositiveIntegerField(default=0)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='clusters.node')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(('cores_granted__gte', 0), ('cores_granted__lte', models.F('cores_capacity'))), name='device_cores_within_card'), models.CheckConstraint(condition=models.Q(('memory_granted__gte', 0), ('memory_granted__lte', models.F('memory_capacity'))), name='device_memory_within_card'), models.CheckConstraint(condition=models.Q(('holders__gte', 0)), name='device_holders_not_negative')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SimulatedDevice',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('uuid', models.CharField(max_length=80, unique=True)),
                ('index', models.PositiveSmallIntegerField()),
                ('model', models.CharField(max_length=80)),
                ('memory_mib', models.PositiveIntegerField()),
                ('mode', models.CharField(choices=[('none', 'No GPU'), ('whole', 'Whole card'), ('slice', 'Slice'), ('mig', 'MIG')], default='whole', max_length=10)),
                ('healthy', models.BooleanField(default=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='clusters.simulatednode')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('node', 'index'), name='simulated_device_index_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
