"""Rendered text compiled and run: Triton, its interpreter on the CPU, and nvcc."""
