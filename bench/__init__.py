"""Benchmarks: Clew beside the raw drivers and beside its peers, measured in one run, strictly in turn.

workloads/      one module a workload: what is done, and what of it is measured
targets/        one module a way to keep conversations: Clew, the raw drivers, each peer
places.py       where targets keep things: folders and servers, and how many bytes went there
measure.py      calls taken in turn, medians and spread
goals.py        what the figures must show
tables.py       figures as tables; charts.py as pictures; publish.py puts both into docs/benchmarks.md
peers.py        runs this package in the environment of each peer
requirements/   what is installed in those
"""
