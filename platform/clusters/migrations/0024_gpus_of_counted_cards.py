from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0023_simulated_silence'),
    ]

    operations = [
        migrations.AddField(
            model_name='device',
            name='hardware_uuid',
            field=models.CharField(blank=True, db_default='', default='', max_length=80),
        ),
    ]
