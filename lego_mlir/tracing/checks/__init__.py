"""Claims about a traced kernel, before it is emitted: accesses in bounds, roundings, ranges that were stored."""
