from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = "The columns keep their names; only the fields in the code have others."


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0010_notified_thresholds'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField('quotanode', 'limits_stand', 'limits_decided'),
                migrations.AlterField(
                    model_name='quotanode',
                    name='limits_decided',
                    field=models.BooleanField(db_column='limits_stand', db_default=False, default=True),
                ),
            ],
        ),
    ]
