"""Kernels and programs as objects: what a declaration says, what a call needs, what a trace depends on."""
