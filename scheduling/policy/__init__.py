"""The policy of a tenant for the jobs below it: defaults, limits of fields, images, idle time.

Policies belong to tenants and are combined along the path from the root to a workspace. The strictest minimum
or maximum applies; an image must be allowed by every tenant that lists images; the shortest idle timeout
applies. So a child can restrict a policy, but never relax it. Defaults are no rules: the nearest one applies,
adjusted to the limits if it is outside them.
"""

from scheduling.policy.combine import EffectivePolicy, PolicyLimit, combine_policies
from scheduling.policy.defaults import Filled, fill_defaults
from scheduling.policy.violations import find_violations

__all__ = ["EffectivePolicy", "Filled", "PolicyLimit", "combine_policies", "fill_defaults", "find_violations"]
