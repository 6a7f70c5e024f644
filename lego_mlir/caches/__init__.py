"""Caches under an order of execution: bounds on fetches, a simulator, and a model of a kernel's time."""
