"""The shipped kernels, each with its NumPy reference.

A module has a `build` function that takes sizes, an element type and a variant, and returns a `Kernel`. They
use only the public API, so each is also an example.
"""
