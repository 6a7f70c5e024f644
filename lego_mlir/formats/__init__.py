"""Storage formats of today's engines as proved bijections, and conversions between them.

>>> from lego_mlir import formats
>>> len(formats.FORMATS) >= 24
True

Sections:

- formats: `storage_format`, `stored_fields`, `regular`, `codings`, `catalog`
- the catalogue: `weights`, `packed_weights`, `block_records`, `kv_caches`, `model_formats`
- conversions: `conversions`, `convert_calls`, `field_arrays`, `field_moves`, `file_conversions`, `tensor_files`
- moves on a device: `device_moves`, `device_casts`, `move_kernels`, `move_tiles`
- moves on a processor: `host_moves`, `host_kernels`, `compiled_moves`, `exchange_tiles`
"""

from lego_mlir.formats import block_records as _block_records
from lego_mlir.formats import kv_caches as _kv_caches
from lego_mlir.formats import packed_weights as _packed_weights
from lego_mlir.formats import weights as _weights
from lego_mlir.formats.catalog import FORMATS, CatalogEntry, format_named, storage
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import StoredField, stored

__all__ = ["FORMATS", "CatalogEntry", "StorageFormat", "StoredField", "format_named", "storage", "stored"]

_CATALOGUE = (_block_records, _kv_caches, _packed_weights, _weights)  # importing a module registers its formats
