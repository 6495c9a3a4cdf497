"""An index for lists of the jobs of all workspaces that are sorted by priority."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('scheduling', '0009_all_jobs_by_name'),
    ]

    operations = [
        AddIndexOnline(
            model_name='job',
            index=models.Index(fields=['priority', 'id'], name='job_by_priority_anywhere'),
        ),
    ]
