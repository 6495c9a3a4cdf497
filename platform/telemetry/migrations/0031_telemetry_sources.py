import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0020_cells_note_lost_gpu_time'),
        ('telemetry', '0030_prices_and_measured_use'),
    ]

    operations = [
        migrations.CreateModel(
            name='TelemetrySource',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('name', models.SlugField(max_length=63)),
                ('kind', models.CharField(choices=[('prometheus', 'Prometheus server'), ('dcgm', 'dcgm-exporter'), ('hami-monitor', 'HAMi vGPUmonitor'), ('hami-scheduler', 'HAMi scheduler'), ('volcano-monitor', 'Volcano vGPU monitor'), ('volcano-scheduler', 'Volcano scheduler')], max_length=20)),
                ('address', models.CharField(max_length=500)),
                ('every_s', models.PositiveIntegerField(default=15)),
                ('enabled', models.BooleanField(default=True)),
                ('matchers', models.JSONField(blank=True, default=dict)),
                ('user', models.CharField(blank=True, default='', max_length=100)),
                ('secret', models.TextField(blank=True, default='')),
                ('authority', models.TextField(blank=True, default='')),
                ('history', models.BooleanField(default=False)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='telemetry_sources', to='clusters.cluster')),
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
        migrations.AddConstraint(
            model_name='telemetrysource',
            constraint=models.UniqueConstraint(fields=('cluster', 'name'), name='source_name_once_per_cluster'),
        ),
    ]
