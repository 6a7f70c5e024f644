"""Data layouts as proved bijections, compiled through MLIR to GPU kernels.

>>> from lego_mlir import OrderBy, RegP, gallery
>>> L = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6])
>>> L.apply(4, 2), L.inv(15)
(15, (4, 2))

Each public name is imported from its module on first use, so that `import lego_mlir` loads neither SymPy, NumPy, Z3 nor
the MLIR bindings.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import TYPE_CHECKING, Any

from lego_mlir.late_names import kept, listed

if TYPE_CHECKING:
    from lego_mlir import caches as caches
    from lego_mlir import cute as cute
    from lego_mlir import distributions as distributions
    from lego_mlir import f2 as f2
    from lego_mlir import formats as formats
    from lego_mlir import jax as jax
    from lego_mlir import mesh as mesh
    from lego_mlir import schedule as schedule
    from lego_mlir import structured as structured
    from lego_mlir import torch as torch
    from lego_mlir.errors import LayoutError as LayoutError
    from lego_mlir.errors import LegoError as LegoError
    from lego_mlir.expr.explain import explain as explain
    from lego_mlir.expr.index import cdiv as cdiv
    from lego_mlir.expr.index import isqrt as isqrt
    from lego_mlir.expr.index import symbols as symbols
    from lego_mlir.expr.prove import prove as prove
    from lego_mlir.expr.ranges import Range as Range
    from lego_mlir.expr.simplify import simplify as simplify
    from lego_mlir.expr.sizes import size as size
    from lego_mlir.formats.convert_calls import convert as convert
    from lego_mlir.layout import Col as Col
    from lego_mlir.layout import GenP as GenP
    from lego_mlir.layout import GroupBy as GroupBy
    from lego_mlir.layout import Layout as Layout
    from lego_mlir.layout import OrderBy as OrderBy
    from lego_mlir.layout import Padded as Padded
    from lego_mlir.layout import RegP as RegP
    from lego_mlir.layout import Row as Row
    from lego_mlir.layout import Strided as Strided
    from lego_mlir.layout import TileBy as TileBy
    from lego_mlir.layout import TileOrderBy as TileOrderBy
    from lego_mlir.layout import as_layout as as_layout
    from lego_mlir.layout import gallery as gallery
    from lego_mlir.layout.notation_parser import parse_layout as parse_layout
    from lego_mlir.mesh.redistribution import redistribute as redistribute
    from lego_mlir.runtime.attention_calls import attention as attention
    from lego_mlir.runtime.calls import calls_of as calls_of
    from lego_mlir.runtime.latent_attention_calls import attention_latent as attention_latent
    from lego_mlir.runtime.packed_attention_calls import attention_varlen as attention_varlen
    from lego_mlir.runtime.packs import load_kernels as load_kernels
    from lego_mlir.runtime.paged_attention_calls import attention_paged as attention_paged
    from lego_mlir.runtime.products.door import matmul as matmul
    from lego_mlir.runtime.products.groups import grouped_matmul as grouped_matmul
    from lego_mlir.tracing.definition.device_functions import DeviceFunction as DeviceFunction
    from lego_mlir.tracing.definition.device_functions import function as function
    from lego_mlir.tracing.definition.generic import GenericKernel as GenericKernel
    from lego_mlir.tracing.definition.generic import generic as generic
    from lego_mlir.tracing.definition.kernel import Kernel as Kernel
    from lego_mlir.tracing.definition.kernel import kernel as kernel
    from lego_mlir.tracing.definition.program import KernelProgram as KernelProgram
    from lego_mlir.tracing.definition.program import empty as empty
    from lego_mlir.tracing.definition.program import program as program
    from lego_mlir.tracing.spread.accesses import load as load
    from lego_mlir.tracing.spread.derivatives import value_and_derivative as value_and_derivative
    from lego_mlir.tracing.spread.distributed import Spread as Spread
    from lego_mlir.tracing.spread.filled import arange as arange
    from lego_mlir.tracing.spread.filled import full as full
    from lego_mlir.tracing.spread.filled import zeros as zeros
    from lego_mlir.tracing.spread.gather import gather as gather
    from lego_mlir.tracing.spread.scans import scan as scan
    from lego_mlir.tracing.spread.sorts import sort as sort
    from lego_mlir.tracing.trace.dtypes import DType as DType
    from lego_mlir.tracing.trace.dtypes import bf16 as bf16
    from lego_mlir.tracing.trace.dtypes import f4e2m1fn as f4e2m1fn
    from lego_mlir.tracing.trace.dtypes import f6e2m3fn as f6e2m3fn
    from lego_mlir.tracing.trace.dtypes import f6e3m2fn as f6e3m2fn
    from lego_mlir.tracing.trace.dtypes import f8e4m3fn as f8e4m3fn
    from lego_mlir.tracing.trace.dtypes import f8e5m2 as f8e5m2
    from lego_mlir.tracing.trace.dtypes import f8e8m0fnu as f8e8m0fnu
    from lego_mlir.tracing.trace.dtypes import f16 as f16
    from lego_mlir.tracing.trace.dtypes import f32 as f32
    from lego_mlir.tracing.trace.dtypes import f64 as f64
    from lego_mlir.tracing.trace.dtypes import i1 as i1
    from lego_mlir.tracing.trace.dtypes import i4 as i4
    from lego_mlir.tracing.trace.dtypes import i8 as i8
    from lego_mlir.tracing.trace.dtypes import i16 as i16
    from lego_mlir.tracing.trace.dtypes import i32 as i32
    from lego_mlir.tracing.trace.dtypes import i64 as i64
    from lego_mlir.tracing.trace.dtypes import index as index
    from lego_mlir.tracing.trace.dtypes import u4 as u4
    from lego_mlir.tracing.trace.dtypes import u8 as u8
    from lego_mlir.tracing.trace.dtypes import u16 as u16
    from lego_mlir.tracing.trace.dtypes import u32 as u32
    from lego_mlir.tracing.trace.dtypes import u64 as u64
    from lego_mlir.tracing.trace.requirements import require as require
    from lego_mlir.tracing.words.async_copies import commit_copies as commit_copies
    from lego_mlir.tracing.words.async_copies import copy_async as copy_async
    from lego_mlir.tracing.words.async_copies import wait_copies as wait_copies
    from lego_mlir.tracing.words.barrier_rings import barriers as barriers
    from lego_mlir.tracing.words.bitcasts import bitcast as bitcast
    from lego_mlir.tracing.words.claimed import assume as assume
    from lego_mlir.tracing.words.clustered_blocks import block_in_cluster as block_in_cluster
    from lego_mlir.tracing.words.clustered_blocks import cluster_barrier as cluster_barrier
    from lego_mlir.tracing.words.clustered_blocks import cluster_rank as cluster_rank
    from lego_mlir.tracing.words.clustered_blocks import cluster_reduce as cluster_reduce
    from lego_mlir.tracing.words.control import barrier as barrier
    from lego_mlir.tracing.words.control import block_dim as block_dim
    from lego_mlir.tracing.words.control import block_id as block_id
    from lego_mlir.tracing.words.control import grid_dim as grid_dim
    from lego_mlir.tracing.words.control import loop as _loop
    from lego_mlir.tracing.words.control import otherwise as otherwise
    from lego_mlir.tracing.words.control import register as register
    from lego_mlir.tracing.words.control import rounded as rounded
    from lego_mlir.tracing.words.control import thread_id as thread_id
    from lego_mlir.tracing.words.control import unroll as unroll
    from lego_mlir.tracing.words.control import when as when
    from lego_mlir.tracing.words.declared_tensor import Tensor as Tensor
    from lego_mlir.tracing.words.distinct import assume_distinct as assume_distinct
    from lego_mlir.tracing.words.escape import mlir_op as mlir_op
    from lego_mlir.tracing.words.fences import fence as fence
    from lego_mlir.tracing.words.functions import acos as acos
    from lego_mlir.tracing.words.functions import asin as asin
    from lego_mlir.tracing.words.functions import atan as atan
    from lego_mlir.tracing.words.functions import atan2 as atan2
    from lego_mlir.tracing.words.functions import ceil as ceil
    from lego_mlir.tracing.words.functions import clz as clz
    from lego_mlir.tracing.words.functions import copysign as copysign
    from lego_mlir.tracing.words.functions import cos as cos
    from lego_mlir.tracing.words.functions import cosh as cosh
    from lego_mlir.tracing.words.functions import ctz as ctz
    from lego_mlir.tracing.words.functions import div_trunc as div_trunc
    from lego_mlir.tracing.words.functions import divide as divide
    from lego_mlir.tracing.words.functions import erf as erf
    from lego_mlir.tracing.words.functions import exp as exp
    from lego_mlir.tracing.words.functions import exp2 as exp2
    from lego_mlir.tracing.words.functions import expm1 as expm1
    from lego_mlir.tracing.words.functions import floor as floor
    from lego_mlir.tracing.words.functions import fma as fma
    from lego_mlir.tracing.words.functions import isfinite as isfinite
    from lego_mlir.tracing.words.functions import isinf as isinf
    from lego_mlir.tracing.words.functions import isnan as isnan
    from lego_mlir.tracing.words.functions import log as log
    from lego_mlir.tracing.words.functions import log1p as log1p
    from lego_mlir.tracing.words.functions import log2 as log2
    from lego_mlir.tracing.words.functions import maximum as maximum
    from lego_mlir.tracing.words.functions import minimum as minimum
    from lego_mlir.tracing.words.functions import nearest_even as _nearest_even
    from lego_mlir.tracing.words.functions import popcount as popcount
    from lego_mlir.tracing.words.functions import power as _power
    from lego_mlir.tracing.words.functions import rem_trunc as rem_trunc
    from lego_mlir.tracing.words.functions import rsqrt as rsqrt
    from lego_mlir.tracing.words.functions import sign as sign
    from lego_mlir.tracing.words.functions import sin as sin
    from lego_mlir.tracing.words.functions import sinh as sinh
    from lego_mlir.tracing.words.functions import sqrt as sqrt
    from lego_mlir.tracing.words.functions import tan as tan
    from lego_mlir.tracing.words.functions import tanh as tanh
    from lego_mlir.tracing.words.functions import trunc as trunc
    from lego_mlir.tracing.words.functions import where as where
    from lego_mlir.tracing.words.interleaving import interleave as interleave
    from lego_mlir.tracing.words.mma import accumulator as accumulator
    from lego_mlir.tracing.words.mma import mma as mma
    from lego_mlir.tracing.words.philox import philox as philox
    from lego_mlir.tracing.words.prefetches import prefetch as prefetch
    from lego_mlir.tracing.words.printing import assert_ as assert_
    from lego_mlir.tracing.words.printing import printf as printf
    from lego_mlir.tracing.words.reductions import block_reduce as block_reduce
    from lego_mlir.tracing.words.reductions import block_scan as block_scan
    from lego_mlir.tracing.words.reductions import warp_reduce as warp_reduce
    from lego_mlir.tracing.words.reductions import warp_scan as warp_scan
    from lego_mlir.tracing.words.scalar import vector as vector
    from lego_mlir.tracing.words.staging import stage as stage
    from lego_mlir.tracing.words.staging import store_tile as store_tile
    from lego_mlir.tracing.words.tensor import shared as shared
    from lego_mlir.tracing.words.warp_roles import warps as warps
    from lego_mlir.tracing.words.warps import activemask as activemask
    from lego_mlir.tracing.words.warps import group_id as group_id
    from lego_mlir.tracing.words.warps import lane_id as lane_id
    from lego_mlir.tracing.words.warps import match_any as match_any
    from lego_mlir.tracing.words.warps import shuffle as shuffle
    from lego_mlir.tracing.words.warps import shuffle_down as shuffle_down
    from lego_mlir.tracing.words.warps import shuffle_up as shuffle_up
    from lego_mlir.tracing.words.warps import shuffle_xor as shuffle_xor
    from lego_mlir.tracing.words.warps import warp_all as warp_all
    from lego_mlir.tracing.words.warps import warp_any as warp_any
    from lego_mlir.tracing.words.warps import warp_ballot as warp_ballot
    from lego_mlir.tracing.words.warps import warp_id as warp_id
    from lego_mlir.tracing.words.warps import warp_sync as warp_sync
    from lego_mlir.tracing.words.while_loops import while_ as while_
    from lego_mlir.tuning.candidates import Configuration as Configuration
    from lego_mlir.tuning.candidates import SearchSpace as SearchSpace
    from lego_mlir.tuning.candidates import Timing as Timing
    from lego_mlir.tuning.launch_counts import LaunchCounts as LaunchCounts
    from lego_mlir.tuning.template_launches import AddressesOf as AddressesOf
    from lego_mlir.tuning.template_launches import TemplateLaunch as TemplateLaunch
    from lego_mlir.tuning.tunable import Tunable as Tunable
    from lego_mlir.tuning.tunable import tune as tune
    from lego_mlir.viz.explorer.widget import explore as explore
    from lego_mlir.viz.shown import show as show

    range = _loop
    round = _nearest_even
    pow = _power

_NAMES = listed(__name__)
__all__ = sorted(_NAMES.keys() - dir(builtins))  # `import *` leaves Python's own range as it is


def __getattr__(name: str) -> Any:
    """Import a public name from its module (PEP 562)."""
    if name == "__version__":
        return _version()
    if name not in _NAMES:
        from importlib.util import find_spec

        if find_spec(f"lego_mlir.{name}"):  # `from lego_mlir import layout` calls this first
            return importlib.import_module(f"lego_mlir.{name}")
        from lego_mlir.errors import did_you_mean
        from lego_mlir.words import instead

        meant = instead(name) or ("" if name.startswith("_") else did_you_mean(name, _NAMES))
        raise AttributeError(f"module 'lego_mlir' has no attribute {name!r}{meant}")
    try:
        return kept(__name__, name, _NAMES)
    except ModuleNotFoundError as error:
        from lego_mlir.errors import without

        raise without(error, name) from error


def _version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lego-mlir")
    except PackageNotFoundError:
        raise AttributeError("lego_mlir is not installed, and so it has no version; run: pip install -e .") from None


def __dir__() -> list[str]:
    return sorted({*_NAMES, "__version__", *(name for name in globals() if name.startswith("__"))})


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    from lego_mlir.notebook import register as _register

    _register(_shell)
