"""Dependent launch: a kernel begins while the one before it on the stream still runs, and waits before it reads.

Every kernel lets the next one begin at once: its blocks start, load their tensor maps, set up their barriers and wait,
on multiprocessors that this kernel leaves idle. The thread that sets up the barriers is the one that copies, so that
only the consumers wait for them. A kernel that reads or writes memory before the wait races with the one before it.
Without an epilogue that loads, only the producer has to wait. The consumers store C when copies have arrived that the
producer issued after its wait, and so after everything that the kernel before it, and all before that one, have done.

The launch needs an attribute, without which the wait returns at once. PTX ISA, "griddepcontrol".
"""

from __future__ import annotations

from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import ProductPlan


def let_next_begin(t: ModuleText, plan: ProductPlan) -> None:
    """The blocks of the next kernel may start once all of this one have come here."""
    if plan.dependent:
        t.line("nvvm.griddepcontrol launch_dependents")


def prefetch_maps(t: ModuleText, plan: ProductPlan) -> None:
    """Load the tensor maps, which are parameters of the launch and not memory that the previous kernel writes."""
    if plan.dependent:
        for name in ("%a", "%b", "%c"):
            t.line(f"nvvm.prefetch tensormap, {name} : !llvm.ptr")


def meet(t: ModuleText, plan: ProductPlan, *, waits: bool) -> None:
    """Order the initialisation of the barriers before their use by the consumers, who wait.

    The thread that copies has set them up itself, and goes on. Blocks of a cluster have met already.
    """
    if plan.dependent and plan.cluster_blocks == 1:
        operation = "nvvm.barrier" if waits else "nvvm.barrier.arrive"
        t.line(f"{operation} id = {t.i32(0)} number_of_threads = {t.i32(plan.threads)}")


def wait_for_previous(t: ModuleText, plan: ProductPlan) -> None:
    """Wait until the previous kernel has ended and its writes are visible."""
    if plan.dependent:
        t.line("nvvm.griddepcontrol wait")
