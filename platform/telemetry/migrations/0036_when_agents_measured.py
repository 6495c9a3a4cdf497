from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0035_sources_are_read_each_minute'),
    ]

    operations = [
        migrations.AddField(
            model_name='nodeagent',
            name='devices_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='nodeagent',
            name='slices_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
