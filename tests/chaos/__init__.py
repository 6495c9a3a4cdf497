"""Faults on purpose: processes that die or fall asleep, a cluster that does not answer or lies, lost news.

A run injects one fault after the other, from a list and then at random by a seed, and looks after each
whether the laws still hold (`laws`). What acts are real processes: each round of platform work is a fork that
a planted fault really kills, with its database connection, its lease and all it knew. PostgreSQL and the API
server are real as well; the kubelets are played.

`make test ARGS=tests/chaos` injects sixty faults; `ALLOTMENT_CHAOS=5000` that many.
"""
