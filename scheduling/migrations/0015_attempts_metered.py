from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0014_attempts_by_end'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='metered_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
