"""Tuning: a space of configurations, pruned by proofs and counts, ranked by a model, measured from the best on.

- `conditions`, `candidates`: the search space as data; configurations, candidates, timings.
- `building`: what a configuration builds, and its digest.
"""
