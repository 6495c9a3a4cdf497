from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0003_readings_of_all_measures'),
    ]

    operations = [
        migrations.AddField(
            model_name='tick',
            name='interval_ms',
            field=models.IntegerField(db_default=10000),
        ),
        migrations.AlterField(
            model_name='tick',
            name='cores_used',
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name='tick',
            name='memory_used_mib',
            field=models.BigIntegerField(null=True),
        ),
    ]
