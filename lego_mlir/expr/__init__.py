"""Index expressions: SymPy nodes over the integers, ranges of symbols, simplification rules and their proofs.

Sections:

- notation: `index`, `sizes`, `nodes`, `integer_operations`, `ranges`, `related`, `text`, `frozen`, `prefix`
- polynomials: `poly`, `terms`, `factor`
- rewriting: `simplify`, `rewrite`, `rules`, `piecewise`, `sharing`, `reciprocal`, `cost`, `explain`
- proofs: `prove`, `prover`, `facts`, `intervals`, `thorough`, `samples`, `solver`, `verdict`, `context`
- evaluation and limits: `evaluate`, `budgets`, `exclusive`
"""
