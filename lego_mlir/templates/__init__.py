"""Kernels written as templates: Jinja2 around Triton or CUDA, with layouts in the placeholders (LEGO, section 4.1).

From a spec to a kernel:

- `render`: a `template` and its names become text. `engine` is Jinja2, `values` what a placeholder sees of layouts,
  `indices` index expressions with ranges, `blocks` those that are vectors. In a first pass `placeholders` turns values
  into `marks`; `finish` replaces the marks once the whole text is rendered: parentheses where an operator needs them,
  `names` without collisions, `signature` for the order of the sizes. `require` validates arguments.
- `words`: the template functions. `load_store` reads and writes blocks, `assign` writes assignments, `descriptors` is
  for TMA, `declarations` writes C functions and classes.
- `readback`: `check` compares a text with its layout at `points`, evaluated by `read_triton` and `read_c`; `unmasked`
  finds blocks that lack a mask.
- `run`: rendered text compiled by Triton and nvcc, or run in Triton's interpreter.
- `library` has the shipped templates and their layouts; `header` writes a C++ header for existing code.
"""

from lego_mlir.templates.render.blocks import block
from lego_mlir.templates.render.indices import index, indices
from lego_mlir.templates.render.template import Rendered, Template

__all__ = ["Rendered", "Template", "block", "index", "indices"]
