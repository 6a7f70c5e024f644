"""Sums of integers in front of the minima and maxima that take them: the same instructions, each before its uses."""

import random
import re

import pytest

from lego_mlir.toolchain import late_sums

OPERATIONS = ("add i32 {}, {}", "sub nsw i32 {}, {}", "mul i32 {}, {}", "call i32 @llvm.smax.i32(i32 {}, i32 {})",
              "tail call i32 @llvm.umin.i32(i32 {}, i32 {})")  # fmt: skip


def program(draw, count):
    """Lines of a block, each with a result, and which operation is whose user."""
    known, lines = ["%a", "%b"], []
    for k in range(count):
        taken = draw.choice(OPERATIONS).format(draw.choice(known[-8:]), draw.choice(known))
        lines.append(f"  %x{k} = {taken}")
        known.append(f"%x{k}")
    return [*lines, f"  ret i32 {known[-1]}"]


def body(text):
    return [line for line in text.split("\n") if line.startswith("  ")]


@pytest.mark.parametrize("seed", range(20))
def test_every_name_is_defined_before_it_is_used(seed):
    lines = program(random.Random(seed), 40)
    made = body(late_sums.moved("\n".join(["define i32 @k(i32 %a, i32 %b) {", *lines, "}"])))
    assert sorted(made) == sorted(lines)
    known = {"%a", "%b"}
    for line in made:
        result, _, taken = line.strip().rpartition(" = ")
        assert set(re.findall(r"%\w+", taken)) <= known
        known.add(result)


def test_a_sum_stands_in_front_of_its_extreme():
    sums = [f"  %s{k} = add i32 %a, {k}" for k in range(8)]
    least = [f"  %m{k} = call i32 @llvm.smin.i32(i32 %s{k}, i32 %b)" for k in range(8)]
    made = body(late_sums.moved("\n".join(["define void @k(i32 %a, i32 %b) {", *sums, *least, "  ret void", "}"])))
    assert made == [line for both in zip(sums, least, strict=True) for line in both] + ["  ret void"]


@pytest.mark.parametrize("text", ["", "define i32 @k(i32 %a) {\n  %x = add i32 %a, 1\n  ret i32 %x\n}"])
def test_what_has_no_extremes_is_the_same_text(text):
    assert late_sums.moved(text) is text
