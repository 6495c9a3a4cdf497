import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0032_source_status'),
    ]

    operations = [
        migrations.CreateModel(
            name='SourceNode',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('node', models.CharField(max_length=253)),
                ('at_ms', models.BigIntegerField()),
                ('devices', models.PositiveIntegerField(default=0)),
                ('values', models.PositiveIntegerField(default=0)),
                ('said', models.JSONField(blank=True, default=dict)),
                ('xids', models.JSONField(blank=True, default=dict)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='nodes', to='telemetry.telemetrysource')),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddConstraint(
            model_name='sourcenode',
            constraint=models.UniqueConstraint(fields=('source', 'node'), name='source_node_once'),
        ),
    ]
