"""Usage and cost: GPU-hours by tenant, user, queue, job and pool, with prices."""
