"""Views: from a layout, an access or a proof to panels. Each module draws one question.

| module | question |
|---|---|
| `subjects` | which positions has this object, of whatever algebra, over a grid |
| `element_positions` | where is each element: position, bank, sector, order, tiles |
| `warp_request` | which wavefront serves each lane of a warp, and which lanes collide |
| `kernel_line` | which banks and sectors does a line of a kernel request |
| `kernel_runs` | what does each line of a kernel cost; how large is each stage; when is which sector fetched |
| `cache_contents` | which lines does a cache hold while an order runs |
| `repairs` | what does the cheapest layout without conflicts look like, and what does its index cost |
| `threads` | which thread and register holds each element; the matrix of a linear layout |
| `counter_examples` | which indices collide; by which rules was an index derived |
"""
