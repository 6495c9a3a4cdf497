from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0020_cells_note_lost_gpu_time'),
    ]

    operations = [
        migrations.AddField(
            model_name='cell',
            name='version',
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
    ]
