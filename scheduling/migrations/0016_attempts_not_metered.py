from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('scheduling', '0015_attempts_metered'),
    ]

    operations = [
        AddIndexOnline(
            model_name='attempt',
            index=models.Index(
                condition=models.Q(('metered_at__isnull', True)), fields=['ended_at'], name='attempt_not_metered'
            ),
        ),
    ]
