import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0031_telemetry_sources'),
    ]

    operations = [
        migrations.CreateModel(
            name='SourceStatus',
            fields=[
                ('source', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='status', serialize=False, to='telemetry.telemetrysource')),
                ('attempted_at', models.DateTimeField(blank=True, null=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('failed_since', models.DateTimeField(blank=True, null=True)),
                ('problem', models.CharField(blank=True, default='', max_length=30)),
                ('detail', models.CharField(blank=True, default='', max_length=200)),
                ('endpoints', models.PositiveIntegerField(default=0)),
                ('endpoints_failed', models.PositiveIntegerField(default=0)),
                ('samples', models.PositiveIntegerField(default=0)),
                ('values', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('unknown', models.JSONField(blank=True, default=list)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
