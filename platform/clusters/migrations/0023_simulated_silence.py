from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0022_simulated_faults'),
    ]

    operations = [
        migrations.AddField(
            model_name='simulatednode',
            name='silent_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
