"""Pictures of layouts, accesses and proofs: in the terminal, as SVG, HTML and PNG, and in notebooks.

`show` chooses views (`views`), which make panels (`panels`): grids and tables without sizes or pixels. `Picture` draws
them, as characters (`characters`) or SVG (`svg`), with colours from `palettes`.
"""

from __future__ import annotations

from lego_mlir.viz.picture import Picture as Picture
from lego_mlir.viz.shown import show as show
