"""The spec of `scale.py.jinja`: read a row-major matrix, write it column-major, tiles along a Z-curve."""

from lego_mlir import Col, Row, as_layout, gallery
from lego_mlir.templates import indices

TILE = [32, 32]
pid, tile_row, tile_column = indices("pid tile_row tile_column")
X = Row(256, 128).tile_by([8, 4], TILE)
Y = Col(256, 128).tile_by([8, 4], TILE)
order = as_layout(gallery.morton(8, 4))
