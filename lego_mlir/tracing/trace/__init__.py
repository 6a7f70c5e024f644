"""The traced program: element types, statements, and the recorder that a running kernel function writes to."""
