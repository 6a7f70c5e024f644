"""Index expressions: SymPy nodes over the integers, ranges of symbols, simplification rules and their proofs."""
