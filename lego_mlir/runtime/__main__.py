"""`python -m lego_mlir.runtime kernel.ptx`: load, launch and check compiled kernels on this machine's GPU.

Needs CuPy and NumPy, and beside the PTX what `lego-mlir compile SPEC --emit ptx --with-data -o kernel.ptx` writes: the
manifest `kernel.json`, and `kernel.npz` with input and expected output. Without the latter kernels of known grid are
launched on random input and nothing is checked. Exit codes: 0 launched and right, 1 wrong, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from lego_mlir.aliases import Array
from lego_mlir.errors import LegoError, UsageError
from lego_mlir.runtime import cuda, data_files
from lego_mlir.runtime.manifest import KernelEntry, refuse_unknown_sizes, sizes_of

AnyLauncher = cuda.Launcher | cuda.ProgramLauncher


def main(argv: list[str] | None = None) -> int:
    """Launch each kernel of the file and print one line for each result."""
    parser = argparse.ArgumentParser(
        prog="python -m lego_mlir.runtime", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", help="a .ptx or .cubin file, with its manifest beside it")
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel or program")
    parser.add_argument(
        "--size", metavar="NAME=N", action="append", default=[], help="a size that the data do not give"
    )
    args = parser.parse_args(argv)
    try:
        module = cuda.load(args.code)
        data = data_files.read(Path(args.code).with_suffix(".npz"))
        given = sizes_of(args.size)
        launchers = _launchers(module, args.kernel, data)
        refuse_unknown_sizes(given, [launcher.kernel for launcher in launchers])
        results = [_check(launcher, data, given) for launcher in launchers]
        return 0 if all(results) else 1
    except LegoError as error:
        print(f"lego_mlir.runtime: {error}", file=sys.stderr)
        return 2


def _launchers(module: cuda.Module, name: str | None, data: Mapping[str, Array]) -> list[AnyLauncher]:
    """The program or kernel of this name; without one, all but kernels without data that only serve as steps."""
    programs = module.manifest.programs
    if name is not None:
        return [module.program(name) if name in programs else module.kernel(name)]
    steps = {step.entry for program in programs.values() for step in program.steps}
    alone = [entry for entry in module.manifest.kernels if entry not in steps or _has_data(entry, data)]
    return [*map(module.program, programs), *map(module.kernel, alone)]


def _has_data(entry: str, data: Mapping[str, Array]) -> bool:
    return any(name.startswith(f"{entry}/") for name in data)


def _check(launcher: AnyLauncher, data: Mapping[str, Array], given: Mapping[str, int]) -> bool:
    kernel = launcher.kernel
    sizes = {
        size.name: int(data[f"{kernel.entry}/{size.name}"]) for size in kernel.sizes if _has(data, kernel, size.name)
    }
    for name, value in given.items():
        if sizes.get(name, value) != value:
            raise UsageError(
                f"--size {name}={value}: the data beside the code are for {name} = {sizes[name]}; leave out --size, or "
                f"compile again with --with-data --size {name}={value}"
            )
    own = {size.name for size in kernel.sizes}
    sizes |= {name: value for name, value in given.items() if name in own}
    kernel.check_sizes(sizes)
    cp = cuda.cupy()
    host = {argument.name: data_files.memory_of(kernel, argument, data, sizes) for argument in kernel.arguments}
    device = [cp.asarray(value) if value.ndim else value for value in host.values()]
    launcher(*device, sizes=sizes)
    cp.cuda.get_current_stream().synchronize()
    shown = f"{kernel.entry}{''.join(f' {name}={value}' for name, value in sizes.items())}"
    right, checked = True, False
    for argument, array in zip(kernel.arguments, device, strict=True):
        name = f"{kernel.entry}/{argument.name}"
        if f"{name}/expected" not in data:
            continue
        result = data_files.compare(cp.asnumpy(array), name, data, argument)
        print(f"{'ok   ' if result else 'WRONG'} {shown}: {argument.name}: {result}")
        right, checked = right and bool(result), True
    if not checked:
        print(f"ran   {shown}: nothing to compare with; compile with --with-data for a check")
    return right


def _has(data: Mapping[str, Array], kernel: KernelEntry, name: str) -> bool:
    return f"{kernel.entry}/{name}" in data


if __name__ == "__main__":
    raise SystemExit(main())
