"""Row policies of this package's tables that cannot be derived from a column."""

from __future__ import annotations

from alerts.models import JobWatch, UserMessage
from tenants.access.row_policies import Rule, declare_rule


def declare_own() -> None:
    """Declare that a message and a watch belong to their user alone, whatever tenant they are about."""
    own = Rule("{row}.user_id = (SELECT allotment_user())")
    declare_rule(UserMessage, own)
    declare_rule(JobWatch, own)
