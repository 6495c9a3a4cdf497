"""The number of random worlds for each invariant: 300, or the value of `ALLOTMENT_EXAMPLES`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("ALLOTMENT_EXAMPLES", "300"))
PATIENCE_S = max(180, EXAMPLES)
# A world takes longer to draw than hypothesis likes; the suite's own time limit is the one that counts.
law = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
