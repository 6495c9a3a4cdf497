"""Estimates of starts that users request."""

import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0005_missing_permissions'),
        ('scheduling', '0015_claims_created_on_demand'),
        ('tenants', '0002_users_have_language'),
    ]

    operations = [
        migrations.CreateModel(
            name='StartEstimate',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('canceled', 'Canceled')], default='pending', max_length=10)),
                ('progress', models.PositiveSmallIntegerField(default=0)),
                ('runs', models.PositiveSmallIntegerField(default=0)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('seconds', models.FloatField(default=0.0)),
                ('error', models.CharField(blank=True, default='', max_length=20)),
                ('result', models.JSONField(blank=True, default=dict)),
                ('subject', models.CharField(max_length=10)),
                ('asked', models.JSONField(default=dict)),
                ('asked_key', models.CharField(max_length=64)),
                ('cell', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='clusters.cell')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(condition=models.Q(('state__in', ('pending', 'running'))), fields=['created_at'], name='start_estimate_open')],
                'constraints': [models.UniqueConstraint(fields=('user', 'subject'), name='start_estimate_per_user')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
