from alerts.models.alert import Alert, AlertState, Silence
from alerts.models.channel import ChannelKind, NotificationChannel
from alerts.models.message import JobWatch, MessageKind, UserMessage
from alerts.models.notification import Notification, NotificationEvent, NotificationState
from alerts.models.rule import UNEVALUATED, AlertRule, AlertSeverity, Comparison, RuleChannel, RuleError

__all__ = [
    "UNEVALUATED",
    "Alert",
    "AlertRule",
    "AlertSeverity",
    "AlertState",
    "ChannelKind",
    "Comparison",
    "JobWatch",
    "MessageKind",
    "Notification",
    "NotificationChannel",
    "NotificationEvent",
    "NotificationState",
    "RuleChannel",
    "RuleError",
    "Silence",
    "UserMessage",
]
