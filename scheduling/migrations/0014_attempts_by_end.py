from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('scheduling', '0013_policies_limit_starts'),
    ]

    operations = [
        AddIndexOnline(
            model_name='attempt',
            index=models.Index(fields=['end_reason', 'ended_at'], name='attempt_by_end'),
        ),
    ]
