"""Tuning: a space of configurations, pruned by proofs and counts, ranked by a model, measured from the best on.

Sections:

- space: `candidates`, `conditions`, `building`, `tunable`, `template_launches`, `recipes`
- prediction: `launch_counts`, `template_counts`, `model`, `pruning`
- choice: `sampling`, `halving`, `significance`, `work_units`, `config_lookup`, `autotune`
- checks: `reference_source`, `computed_checks`, `template_checks`, `interpreted`
- measurement: `workbench`, `cpu_workbench`, `gpu_workbench`, `measuring`, `isolated`, `child`, `device_launch`,
  `gpu_trials`, `template_trials`, `triton_trials`, `profiler`, `baselines`, `simulated_device`, `time_budget`
- several machines: `packed`, `several_devices`, `cluster`, `cluster_tuning`
- timings: `timings`, `stored`, `dataframes`, `kernel_tuner`
"""
