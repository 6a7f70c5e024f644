"""The shipped templates, each with the layouts that fill it in."""
