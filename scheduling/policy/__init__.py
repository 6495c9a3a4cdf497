"""The policy of a tenant for the jobs below it: defaults, limits of fields, images, idle time.

Policies stand on tenants and add up along the path from the root to a workspace. A minimum or maximum is the
strictest on the path; an image must be allowed by every tenant that lists images; of the idle time-outs the
shortest counts. So a child can tighten and never loosen. Defaults are no rule: the nearest one wins, brought
to the limits where it lies outside them.
"""

from scheduling.policy.combine import EffectivePolicy, PolicyLimit, combine_policies
from scheduling.policy.defaults import Filled, fill_defaults
from scheduling.policy.violations import find_violations

__all__ = ["EffectivePolicy", "Filled", "PolicyLimit", "combine_policies", "fill_defaults", "find_violations"]
