"""Vector code: operands as tables, register tiles, loops over equal tiles, and one matrix per lane."""
