"""Index expressions: integer nodes on SymPy, their ranges, the rules that make them cheap, and their proofs."""
