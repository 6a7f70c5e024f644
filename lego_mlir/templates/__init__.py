"""Kernels written as templates: Jinja2 around Triton or CUDA, with layouts in the placeholders (LEGO, section 4.1)."""

from lego_mlir.templates.template import Rendered, Template
from lego_mlir.templates.values import index, indices

__all__ = ["Rendered", "Template", "index", "indices"]
