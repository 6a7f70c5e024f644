"""Caches under an order of execution: bounds on fetches, a simulator, and a model of a kernel's time.

| module | answers |
|---|---|
| `bounds` | how many lines an order fetches at most, and the cache it needs (equations 3.2 to 3.10 and 4.8) |
| `levels` | what a cache is: bytes, lines and sectors, ways, eviction, writes (`CacheLevel`) |
| `workloads` | the byte addresses of each task (`stencil`, `product`, `dense`) |
| `placement` | which SM runs each block, and when (`scattered`, or recorded) |
| `simulation` | hits and fetches of each level (`simulate`) |
| `space_time` | the diagram of lines by tasks, drawn by `viz.cache_diagram` |
| `time_model` | seconds of a kernel under each order (`estimate`, `ranked`), for two chips |

Each is loaded when it is first used; `simulation` and the modules that simulate need Numba, `pip install
numba`. docs/reference/schedule-caches.md explains them.

>>> import lego_mlir as lego
>>> lego.caches.bounds.stencil_rows(16, 16, lego.caches.bounds.Stencil(7, 7), line=4).fetches
154
"""

from typing import TYPE_CHECKING

from lego_mlir.late_names import attached as _attached

if TYPE_CHECKING:
    from lego_mlir.caches import bounds as bounds
    from lego_mlir.caches import levels as levels
    from lego_mlir.caches import placement as placement
    from lego_mlir.caches import simulation as simulation
    from lego_mlir.caches import space_time as space_time
    from lego_mlir.caches import time_model as time_model
    from lego_mlir.caches import workloads as workloads

__getattr__, __dir__, __all__ = _attached(__name__)
