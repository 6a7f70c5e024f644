"""What is claimed of a traced kernel, before it is emitted: accesses in bounds, roundings, ranges that were stored."""
