"""Proofs that rings of barriers order the roles of a kernel, for all rounds and all sizes.

    trace -> reader (programs of agents) -> counts (how often, at each place) -> obligations -> claims
                                                                              -> ring_faults (a round)

An agent is a group of warps that runs one program of waits, arrivals and accesses of stages. One symbolic walk counts,
at each place of a program, the waits and arrivals that it has done on each ring. Between agents only constants are left
("its count is at least mine less 3"), so that phases, parities, reuse and deadlock are longest paths in a small graph;
intervals and Z3 answer one question: which stage an access is in.

Sections:

- programs: `reader`, `agents`, `before_roles`, `ring_statements`, `needed_values`, `stage_reads`, `whole_stages`
- integers: `data_integers`, `use_registers`, `repeating`, `values`
- orders: `counts`, `order`, `rounds_apart`, `strides`, `turns`, `overlaid`
- claims: `obligations`, `stage_fills`, `claims`, `ring_faults`
"""
