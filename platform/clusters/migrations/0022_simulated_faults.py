from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0021_cells_have_versions'),
    ]

    operations = [
        migrations.AddField(
            model_name='simulateddevice',
            name='stray_mib',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='simulateddevice',
            name='throttled',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='simulateddevice',
            name='xid_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='simulateddevice',
            name='xid_code',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
    ]
