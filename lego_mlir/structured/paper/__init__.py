"""The paper's path: statements on isl sets, their loops, and scalar code for them."""
