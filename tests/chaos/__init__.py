"""Faults on purpose: processes that die or fall asleep, a cluster that does not answer or lies, lost news.

`test_chaos` injects one fault after the other, from a list and then by the dice of a seed, and looks after
each whether the laws still hold (`laws`); PostgreSQL itself looks at the books at every commit
(`commit_laws`). What acts are real processes: each step of platform work is done in a fork that a planted
fault really kills, with its database connection, its lease and all it knew. PostgreSQL, the API server and
etcd are real as well, and the last two die and freeze like everybody else; the kubelets and the clock are
played. `test_platform` does the same to the processes of a whole platform, whose clock is the real one.

`make test ARGS=tests/chaos` injects three hundred faults; `ALLOTMENT_CHAOS=5000` that many.
"""
