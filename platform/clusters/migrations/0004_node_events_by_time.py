"""An index for alert rules that count the events of nodes by time."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('clusters', '0003_workload_mix_of_cells'),
    ]

    operations = [
        AddIndexOnline(
            model_name='nodeevent',
            index=models.Index(fields=['at'], name='node_event_time'),
        ),
    ]
