from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0019_words_of_origins'),
    ]

    operations = [
        migrations.AddField(
            model_name='cell',
            name='lost_ppm',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
