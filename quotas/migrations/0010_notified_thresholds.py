from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = "The columns keep their names; only the fields in the code have others."


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0009_reserved'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField('budget', 'told_month', 'notified_month'),
                migrations.AlterField(
                    model_name='budget',
                    name='notified_month',
                    field=models.DateField(blank=True, db_column='told_month', null=True),
                ),
                migrations.RenameField('budget', 'told_percent', 'notified_percent'),
                migrations.AlterField(
                    model_name='budget',
                    name='notified_percent',
                    field=models.PositiveSmallIntegerField(db_column='told_percent', default=0),
                ),
            ],
        ),
    ]
