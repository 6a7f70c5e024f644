"""Tuning: a space of configurations, pruned by proofs and counts, ranked by a model, measured from the best on.

- `conditions`, `candidates`: the search space as data; configurations, candidates, timings.
- `building`: what a configuration builds, and its digest. `tunable` is `lego.tune`, `config_lookup` its choice for a
  size.
- `launch_counts`, `template_counts`: what a launch does, counted from its trace or by arithmetic; `model` turns it into
  a time, `pruning` into the candidates worth measuring and reasons for the others. `autotune` prints them for Triton.
- `workbench`: from candidates to timings, by races (`halving`) on a bench (`measuring`); `timings` is their store.
- `baselines`: one kernel against other functions on the same arrays.
"""
