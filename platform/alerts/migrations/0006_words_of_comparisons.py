"""The words of comparisons of alerts are those of rules; the database stays as it is."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0005_rules_name_unread_clusters'),
    ]

    operations = [
        migrations.AlterField(
            model_name='alert',
            name='comparison',
            field=models.CharField(choices=[('above', 'More than'), ('below', 'Less than')], max_length=5),
        ),
    ]
