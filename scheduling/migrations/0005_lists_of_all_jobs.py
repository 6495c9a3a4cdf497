"""An index for lists of the jobs of all workspaces, so that no row before a page is read."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('scheduling', '0004_job_deletion'),
    ]

    operations = [
        AddIndexOnline(
            model_name='job',
            index=models.Index(fields=['-submitted_at', '-id'], include=['workspace', 'state'], name='job_by_time_anywhere'),
        ),
    ]
