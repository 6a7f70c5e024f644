"""Index expressions: integer nodes on SymPy, their ranges, the rules that make them cheap, and the proofs behind them."""
