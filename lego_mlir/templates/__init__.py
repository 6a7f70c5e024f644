"""Kernels written as templates: Jinja2 around Triton or CUDA, with layouts in the placeholders (LEGO, section 4.1).

From a spec to a kernel:

- `template`: a text with its names, and what it becomes; `engine` is Jinja2, `values` what a placeholder sees of
  layouts, `bounded` the indices that know their range, `blocks` those that are vectors.
- `placeholders`: values become `marks`, and marks become text in the `whole_text`: `surroundings` say which need
  parentheses, `names` keeps names apart, `signature` orders the sizes.
- The words of templates: `accesses` loads and stores, `statements` assigns, `strided` describes for TMA, `declarations`
  are functions and classes of C.
- What is shown of a text: `check` compares it with its layout at `points`, read back by `read_triton` and `read_c`;
  `unmasked` notes blocks that nothing masks, `runs` finds neighbours that Triton cannot see.
- Kernels: `library` has the templates and their layouts, `grids` the orders of programs, `header` writes C++ for code
  that exists; `refusals` are what builders and words ask first.
"""

from lego_mlir.templates.render.blocks import block
from lego_mlir.templates.render.indices import index, indices
from lego_mlir.templates.render.template import Rendered, Template

__all__ = ["Rendered", "Template", "block", "index", "indices"]
