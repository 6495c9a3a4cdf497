from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0002_channels_of_workspaces_and_processes'),
    ]

    operations = [
        migrations.AddField(
            model_name='reading',
            name='interval_ms',
            field=models.IntegerField(db_default=10000),
        ),
        migrations.AddField(
            model_name='reading',
            name='values',
            field=models.BinaryField(null=True),
        ),
        migrations.AlterField(
            model_name='reading',
            name='cores_used',
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name='reading',
            name='memory_used_mib',
            field=models.IntegerField(null=True),
        ),
    ]
