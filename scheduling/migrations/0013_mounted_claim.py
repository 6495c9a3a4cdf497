"""The volume claims that unfinished jobs mount, as clusters have them."""

import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0004_node_events_by_time'),
        ('scheduling', '0012_job_order_at'),
        ('tenants', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='MountedClaim',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.CharField(max_length=253)),
                ('phase', models.CharField(choices=[('bound', 'Bound'), ('pending', 'Pending'), ('lost', 'Lost'), ('missing', 'Missing'), ('deleting', 'Deleting'), ('unknown', 'Unknown')], max_length=10)),
                ('volume', models.CharField(blank=True, default='', max_length=253)),
                ('terms', models.JSONField(blank=True, default=list)),
                ('terms_at', models.DateTimeField(blank=True, null=True)),
                ('read_at', models.DateTimeField()),
                ('cluster', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='clusters.cluster')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('cluster', 'workspace', 'name'), name='mounted_claim_once_per_cluster')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
