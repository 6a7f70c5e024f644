"""Kernels that come with the project, each with its NumPy reference.

A module has a `build` function that takes sizes, an element type and a variant, and returns a `Kernel`. They are
written with the public names only, so each is also an example.
"""
