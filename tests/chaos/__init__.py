"""Fault injection: processes that die or stop, a cluster that fails or answers wrongly, lost messages.

`test_chaos` injects one fault after the other, from a list and then drawn with a seed, and checks the
invariants after each (`laws`); PostgreSQL itself checks the sums at every commit (`commit_laws`). The actors
are real processes: each step of platform work runs in a fork that a planted fault really kills, with its
database connection, its lease and its memory. PostgreSQL, the API server and etcd are real as well, and the
last two are killed and stopped, too; the kubelets and the clock are simulated. `test_platform` does the same
to the processes of a whole platform, whose clock is the real one.

`make test ARGS=tests/chaos` injects three hundred faults; `ALLOTMENT_CHAOS=5000` sets another number.
"""
