"""Vector code: operands as tables, register tiles, rolled loops over them, and one matrix per lane."""
