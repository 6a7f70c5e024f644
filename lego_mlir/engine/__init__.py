"""The layout engine: layouts of tile programs chosen by exact search (Linear Layouts, sections 4.4, 5 and 6).

| module | contents |
|---|---|
| `tile_graph` | the operations of a tile program, and the transfer functions of their layouts |
| `tile_memory` | the addresses of a tile, and the accesses of a layout |
| `anchors`, `closure` | the candidate layouts of each value |
| `operation_costs`, `axis_costs` | the cost of an operation and of a conversion, by counts |
| `conversion_bounds` | lower bounds of conversions, without their plans |
| `alternatives` | the ways to compute each value; values that are kept in several layouts |
| `elimination` | the best choice of all values, by variable elimination |
| `layout_choice` | the search: bounds first, plans where they matter |
| `choice_reasons` | why a layout was chosen, and what the others cost |

Nothing here traces a kernel: `tracing.spread.open_tiles` records the graph, and gives each value its layout.
"""
