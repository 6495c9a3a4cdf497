from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = "The column keeps its name; only the field in the code has another one."


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0007_limits_of_queues_stand'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField('quota', 'nominal', 'own_nominal'),
                migrations.AlterField(
                    model_name='quota',
                    name='own_nominal',
                    field=models.PositiveBigIntegerField(blank=True, db_column='nominal', null=True),
                ),
            ],
        ),
    ]
