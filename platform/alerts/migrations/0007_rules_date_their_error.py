"""Rules name more errors, and since when they have one."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0006_words_of_comparisons'),
    ]

    operations = [
        migrations.AddField(
            model_name='alertrule',
            name='error_since',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='alertrule',
            name='error',
            field=models.CharField(blank=True, choices=[('unreadable', "The metric couldn't be read."), ('partly-unreadable', "Some clusters couldn't be read."), ('no-source', 'No Prometheus server is configured as a data source.'), ('source-disabled', 'The Prometheus data source is disabled.'), ('partly-without-source', 'Some clusters have no enabled data source.'), ('no-values', 'No GPU, node or cluster has a current value. Check data sources and node agents.'), ('partly-without-values', 'Some clusters have no current values.'), ('too-many', 'More than 1,000 subjects meet the condition. The others have no alert.')], default='', max_length=25),
        ),
    ]
