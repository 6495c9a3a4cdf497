"""What a tenant demands of the jobs below it: defaults, limits of fields, images, idle time.

Policies stand on tenants and add up along the path from the root to a workspace. A minimum or maximum is the
strictest on the path; an image must be allowed by every tenant that lists images; of the idle time-outs the
shortest counts. So a child can tighten and never loosen. Defaults are no rule: the nearest one wins, brought
to the limits where it lies outside them.
"""

from scheduling.policy.combine import Effective, Limit, combine
from scheduling.policy.defaults import Filled, fill
from scheduling.policy.violations import violations

__all__ = ["Effective", "Filled", "Limit", "combine", "fill", "violations"]
