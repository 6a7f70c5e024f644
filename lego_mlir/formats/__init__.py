"""Storage formats of today's engines as proved bijections, and conversions between them.

>>> from lego_mlir import formats
>>> len(formats.FORMATS) >= 24
True
"""

from lego_mlir.formats import block_records, kv_caches, packed_weights, weights
from lego_mlir.formats.catalog import FORMATS, CatalogEntry, format_named, storage
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import StoredField, stored

__all__ = [
    "FORMATS",
    "CatalogEntry",
    "StorageFormat",
    "StoredField",
    "block_records",
    "format_named",
    "kv_caches",
    "packed_weights",
    "storage",
    "stored",
    "weights",
]
