from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = (
    "Old processes add channels of the old scopes alone, which the new constraints allow and keep apart as the old "
    "ones did, and they add them with ON CONFLICT DO NOTHING, which names no constraint."
)


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0001_tables'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='channel',
            name='channel_once_per_cluster',
        ),
        migrations.RemoveConstraint(
            model_name='channel',
            name='channel_once_per_card',
        ),
        migrations.RemoveConstraint(
            model_name='channel',
            name='channel_scope_matches_ids',
        ),
        migrations.AddField(
            model_name='channel',
            name='process_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AlterField(
            model_name='channel',
            name='scope',
            field=models.CharField(choices=[('cluster', 'Cluster'), ('node', 'Node'), ('card', 'Card'), ('slice', 'Slice'), ('workspace', 'Workspace'), ('process', 'Process')], max_length=9),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(condition=models.Q(('node_id__isnull', True), ('workspace_id__isnull', True)), fields=('cluster_id',), name='channel_once_per_total'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(condition=models.Q(('node_id__isnull', True)), fields=('cluster_id', 'workspace_id'), name='channel_once_per_workspace'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(condition=models.Q(('allocation_id__isnull', True), ('process_id__isnull', True)), fields=('node_id', 'device_id'), name='channel_once_per_device'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(fields=('process_id',), name='channel_once_per_process'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('allocation_id__isnull', True), ('device_id__isnull', True), ('node_id__isnull', True), ('process_id__isnull', True), ('scope', 'cluster'), ('workspace_id__isnull', True)), models.Q(('allocation_id__isnull', True), ('device_id__isnull', True), ('node_id__isnull', True), ('process_id__isnull', True), ('scope', 'workspace'), ('workspace_id__isnull', False)), models.Q(('allocation_id__isnull', True), ('device_id__isnull', True), ('node_id__isnull', False), ('process_id__isnull', True), ('scope', 'node')), models.Q(('allocation_id__isnull', True), ('device_id__isnull', False), ('node_id__isnull', False), ('process_id__isnull', True), ('scope', 'card')), models.Q(('allocation_id__isnull', False), ('device_id__isnull', False), ('node_id__isnull', False), ('process_id__isnull', True), ('scope', 'slice')), models.Q(('allocation_id__isnull', True), ('device_id__isnull', False), ('node_id__isnull', False), ('process_id__isnull', False), ('scope', 'process')), _connector='OR'), name='channel_ids_match_scope'),
        ),
    ]
