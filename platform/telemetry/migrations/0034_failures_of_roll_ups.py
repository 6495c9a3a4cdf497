from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0033_source_nodes'),
    ]

    operations = [
        migrations.AddField(
            model_name='pendingbucket',
            name='failures',
            field=models.SmallIntegerField(db_default=0, default=0),
        ),
    ]
