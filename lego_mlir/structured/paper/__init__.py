"""The paper's own path: statements on isl sets, their loops, and scalar code for them."""
