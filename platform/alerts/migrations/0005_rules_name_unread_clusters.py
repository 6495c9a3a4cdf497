"""Rules name the clusters that the last evaluation could not read."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0004_rules_have_queries'),
    ]

    operations = [
        migrations.AddField(
            model_name='alertrule',
            name='unread_clusters',
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name='alertrule',
            name='error',
            field=models.CharField(blank=True, choices=[('unreadable', "The metric couldn't be read."), ('partly-unreadable', "Some clusters couldn't be read."), ('too-many', 'More than 1,000 subjects meet the condition. The others have no alert.')], default='', max_length=20),
        ),
        migrations.AlterField(
            model_name='alertrule',
            name='comparison',
            field=models.CharField(choices=[('above', 'More than'), ('below', 'Less than')], default='above', max_length=5),
        ),
    ]
