"""Channels can send events of watched jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0007_rules_date_their_error'),
    ]

    operations = [
        migrations.AddField(
            model_name='notificationchannel',
            name='sends_job_watches',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
