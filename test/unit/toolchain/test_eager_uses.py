"""Arithmetic that follows its operands: every value before its uses, memory in order, and fewer registers."""

import random
import re

import pytest

from lego_mlir import spec
from lego_mlir.hardware.targets import target_named
from lego_mlir.toolchain import compile_kernel, eager_uses, llvm, ptxas

HEAD = "define ptx_kernel void @k(ptr addrspace(1) %p, float %a, float %b, i1 %c) {\nentry:\n"


def program(seed, length=40):
    """A block of random arithmetic with loads and stores, whose last values another block uses."""
    rng, lines, floats, halves = random.Random(seed), [], ["%a", "%b"], []
    for n in range(length):
        kind = rng.choice(["fdiv", "fmul", "fadd", "load", "store", "narrow", "widen"])
        one, other = rng.choice(floats), rng.choice(floats)
        address = f"  %p{n} = getelementptr float, ptr addrspace(1) %p, i64 {n}"
        if kind == "load":
            lines += [address, f"  %v{n} = load float, ptr addrspace(1) %p{n}, align 4"]
        elif kind == "store":
            lines += [address, f"  store float {one}, ptr addrspace(1) %p{n}, align 4"]
            continue
        elif kind == "narrow":
            lines.append(f"  %h{n} = fptrunc float {one} to half")
            halves.append(f"%h{n}")
            continue
        elif kind == "widen" and halves:
            lines.append(f"  %v{n} = fpext half {rng.choice(halves)} to float")
        else:
            lines.append(f"  %v{n} = {kind if kind != 'widen' else 'fadd'} float {one}, {other}")
        floats.append(f"%v{n}")
    last = f"  store float {floats[-1]}, ptr addrspace(1) %p, align 4\n"
    phi = f"  %x = phi float [ {floats[-1]}, %entry ]\n  %y = phi float [ %a, %entry ]\n  %z = fdiv float %x, %y\n"
    after = f"{phi}  %w = fdiv float %z, %x\n  store float %w, ptr addrspace(1) %p, align 4\n  ret void\n}}\n"
    return f"{HEAD}" + "\n".join(lines) + f"\n{last}  br label %next\n\nnext:\n{after}"


def memory(text):
    return re.findall(r"^.*(?:load|store) .*$", text, re.MULTILINE)


@pytest.mark.parametrize("seed", range(25))
def test_values_come_before_their_uses_and_memory_stays_in_order(seed):
    text = program(seed)
    made = eager_uses.ordered(text)
    assert sorted(made.splitlines()) == sorted(text.splitlines())
    assert memory(made) == memory(text)
    llvm.parse(made)  # which verifies that values dominate their uses


def test_some_move_and_others_do_not():
    assert any(eager_uses.ordered(program(seed)) != program(seed) for seed in range(25))
    plain = program(0).replace("fdiv", "fmul")
    assert eager_uses.ordered(plain) == plain


@pytest.mark.tools
@pytest.mark.skipif(ptxas.find() is None, reason="needs ptxas (pip install nvidia-cuda-nvcc)")
def test_gradients_of_an_activation_hold_one_element_at_a_time(request, monkeypatch):
    (kernel,) = spec.load(request.config.rootpath / "examples/ported/swiglu_gradients.py").kernels.values()

    def registers():
        text = compile_kernel(kernel, target="sm_90a", cache=None).text
        return ptxas.assemble(text, target_named("sm_90a"))[1][0].registers

    found = registers()
    monkeypatch.setattr(eager_uses, "FEWEST", 1 << 10)
    assert found < registers() - 8
