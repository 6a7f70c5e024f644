"""Dependent launch: a kernel begins while the one before it on the stream still runs, and waits before it reads.

Every kernel lets the next one begin at once: its blocks start, set up their barriers and wait, on multiprocessors that
this kernel leaves idle. A kernel that reads or writes memory before the wait races with the one before it. Without an
epilogue that loads, only the producer has to wait. The consumers store C when copies have arrived that the producer
issued after its wait, and so after everything that the kernel before it, and all before that one, have done.

The launch needs an attribute, without which the wait returns at once. PTX ISA, "griddepcontrol".
"""

from __future__ import annotations

from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import ProductPlan


def let_next_begin(t: ModuleText, plan: ProductPlan) -> None:
    """The blocks of the next kernel may start once all of this one have come here."""
    if plan.dependent:
        t.line("nvvm.griddepcontrol launch_dependents")


def wait_for_previous(t: ModuleText, plan: ProductPlan) -> None:
    """Wait until the previous kernel has ended and its writes are visible."""
    if plan.dependent:
        t.line("nvvm.griddepcontrol wait")
