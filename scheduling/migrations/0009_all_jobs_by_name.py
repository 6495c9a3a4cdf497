"""An index for lists of the jobs of all workspaces that are sorted by name."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('scheduling', '0008_roles_with_models'),
    ]

    operations = [
        AddIndexOnline(
            model_name='job',
            index=models.Index(fields=['name', 'id'], name='job_by_name_anywhere'),
        ),
    ]
