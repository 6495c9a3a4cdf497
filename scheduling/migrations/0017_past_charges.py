from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0016_attempts_not_metered'),
    ]

    operations = [
        migrations.AddField(
            model_name='allocation',
            name='past_charges',
            field=models.JSONField(blank=True, null=True),
        ),
    ]
