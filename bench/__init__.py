"""Benchmarks: ratios against the raw driver, measured in one run, strictly in turn."""
