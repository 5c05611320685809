"""Benchmarks that compare Clew with the raw drivers and with its peers, in one run, strictly in turn.

workloads/      one module per workload: the calls, and the measures
targets/        one module per way to store conversations: Clew, the raw drivers, each peer
places.py       stores of the targets: folders and servers, and the bytes written to them
measure.py      interleaved calls, medians and spread
goals.py        the goals for the figures
tables.py       figures as tables; charts.py as pictures; publish.py puts both into docs/benchmarks.md
peers.py        runs this package in the environment of each peer
requirements/   the requirements of those environments
"""
