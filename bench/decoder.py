"""A decoder of our kernels alone, in a CUDA graph, next to the same model by torch.compile and to the roof of memory.

    python bench/decoder.py render [WORD ..]    the kernels of examples/decoder for this model; no GPU
    python bench/decoder.py time [WORD ..]      a step of every sequence: logits against f32, then times
    python bench/decoder.py table               the table of docs/results/decoder.md

The sizes are those of a model of 8 billion parameters, with 4 of its layers, and made-up weights; each sequence has
CONTEXT positions in its cache. PyTorch has its weights in f16 in all rows, reads a cache of the same length without
pages, and samples as ours does; its step is compiled with `mode="max-autotune-no-cudagraphs"`, then recorded as ours.
The roof is of the bytes of weights and caches that a step reads, at the rate at which this device copies.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "decoder", "results/decoder.md", "sm_90a"
sys.path.insert(0, str(harness.BENCH.parent / "examples" / NAME))
CONTEXT = 1000
CASES = list(product(("f16", "f8", "i4"), (1, 4, 16, 64)))
SIZES = {"vocabulary": 32768, "width": 4096, "heads": 32, "shared": 8, "size": 128, "hidden": 14336, "layers": 4}
TOLERANCE = 3e-2
COPY_BYTES_A_S = 4.3e12
"""Read and written together, by a copy of 8.6 GB on this device."""


def kernels_of(weights: str) -> dict[str, Any]:
    """The kernels of a step, by their names in a `Decoder`."""
    import decode
    from decoder_model import Model

    return decode.kernels_of(Model(**SIZES), weights)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for weights in dict.fromkeys(weights for weights, _ in cases):
        for name, kernel in kernels_of(weights).items():
            mlir_kernels.keep_cubin(folder / weights / name, kernel, TARGET)


# -- on the GPU machine


def matrix(n: int, k: int, weights: str) -> Any:
    """A random matrix on the device: what a product takes, and its values in f16."""
    import torch
    from decoder_kernels import GROUP

    if weights == "f16":
        values = torch.randn((n, k), device="cuda").mul_(k**-0.5).half()
        return SimpleNamespace(operands=(values,), values=values)
    scales = torch.empty((k // GROUP, n), device="cuda").uniform_(0.5, 1.5).mul_(k**-0.5).half()
    if weights == "f8":
        numbers = torch.randn((n, k), device="cuda").to(torch.float8_e4m3fn)
        codes = numbers.view(torch.uint8)
    else:
        codes = torch.randint(256, (n, k // 2), device="cuda", dtype=torch.uint8)
        pairs = torch.stack([codes & 15, codes >> 4], dim=2).reshape(n, k).to(torch.int8)
        numbers, scales = torch.where(pairs > 7, pairs - 16, pairs), scales / 4
    values = (numbers.float() * scales.float().T.repeat_interleave(GROUP, 1)).half()
    return SimpleNamespace(operands=(codes, scales), values=values)


def made_up(weights: str) -> Any:
    """A model's parameters on the device."""
    import torch
    from decoder_model import Model

    model = Model(**SIZES)
    layers = [{name: matrix(*shape, weights) for name, shape in model.matrices().items()} for _ in range(model.layers)]
    gains = torch.empty((2 * model.layers + 1, model.width), device="cuda").uniform_(0.5, 1.5).half()
    table = torch.randn((model.vocabulary, model.width), device="cuda").half()
    return SimpleNamespace(
        model=model, matrices=layers, gains=gains, table=table, logits=matrix(model.vocabulary, model.width, weights)
    )


def step_of_torch(given: Any, batch: int) -> Callable[..., Any]:
    """The model in PyTorch: the logits after a token of each sequence at CONTEXT, whose keys and values it keeps."""
    import torch
    from decoder_model import EPSILON, ROPE_BASE
    from torch.nn import functional

    model, half = given.model, given.model.size // 2
    angles = CONTEXT * ROPE_BASE ** (-torch.arange(half, device="cuda") / half)
    sine, cosine = angles.sin(), angles.cos()

    def norm(x: Any, gain: Any) -> Any:
        return (x * torch.rsqrt((x * x).mean(1, keepdim=True) + EPSILON) * gain.float()).to(given.table.dtype)

    def turned(x: Any) -> Any:
        a, b = x.float().chunk(2, dim=2)
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], dim=2).to(x.dtype)

    def step(tokens: Any, layers: Any, gains: Any, last: Any, caches: Any) -> Any:
        x = given.table[tokens].float()
        for n, (layer, (keys, values)) in enumerate(zip(layers, caches, strict=True)):
            qkv = (norm(x, gains[2 * n]) @ layer["qkv"].T).reshape(batch, -1, model.size)
            q, k, v = qkv.split([model.heads, model.shared, model.shared], dim=1)
            keys[:, :, CONTEXT], values[:, :, CONTEXT] = turned(k), v
            mixed = functional.scaled_dot_product_attention(turned(q)[:, :, None], keys, values, enable_gqa=True)
            x = x + (mixed.reshape(batch, -1) @ layer["out"].T).float()
            gate, up = (norm(x, gains[2 * n + 1]) @ layer["gate_up"].T).chunk(2, dim=1)
            x = x + ((functional.silu(gate.float()) * up.float()).to(gate.dtype) @ layer["down"].T).float()
        return (norm(x, gains[-1]) @ last.T).float()

    return step


def drawn(logits: Any) -> Any:
    """One of the most probable tokens, at random."""
    import decode
    import torch

    best, which = logits.topk(decode.CHOSEN, dim=1)
    return which.gather(1, torch.multinomial(torch.softmax(best / 0.8, dim=1), 1))[:, 0].int()


def timed(folder: Path, weights: str, batch: int) -> list[harness.Contender]:
    import decode
    import numpy as np
    import torch
    from decoder_kernels import PAGE as OF_PAGE

    torch.manual_seed(0)
    given = made_up(weights)
    model = given.model
    first = np.random.default_rng(0).integers(0, model.vocabulary, batch)

    def put(array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).cuda() if isinstance(array, np.ndarray) else array

    run = {path.name: mlir_kernels.kept_kernel(next(path.glob("*.cubin"))) for path in (folder / weights).iterdir()}
    decoder = decode.Decoder(given, run, first, CONTEXT + 1, np.random.default_rng(0), put)
    pages, n = decoder.pages.long(), torch.arange(CONTEXT, device="cuda")
    caches = [[torch.randn((batch, model.shared, CONTEXT + 1, model.size), device="cuda").half() for _ in range(2)]
              for _ in given.matrices]  # fmt: skip
    for paged, dense in zip(chain(*decoder.caches), chain(*caches), strict=True):
        paged[pages[:, n // OF_PAGE], :, n % OF_PAGE] = dense[:, :, :CONTEXT].transpose(1, 2)
    tokens = decoder.tokens.clone()
    start = torch.full_like(decoder.positions, CONTEXT)

    def ours() -> None:
        decoder.positions.copy_(start)
        decoder.tokens.copy_(tokens)
        decoder.step()

    matrices = [{name: m.values for name, m in layer.items()} for layer in given.matrices]
    exact = step_of_torch(SimpleNamespace(model=model, table=given.table.float()), batch)
    wanted = exact(
        tokens, [{name: m.float() for name, m in layer.items()} for layer in matrices], given.gains,
        given.logits.values.float(), [[x.float() for x in pair] for pair in caches],
    )  # fmt: skip
    ours()
    error = harness.require_close(decoder.logits, wanted, TOLERANCE, "logits")
    compiled = torch.compile(step_of_torch(given, batch), mode="max-autotune-no-cudagraphs")
    by_torch = partial(compiled, tokens, matrices, given.gains, given.logits.values, caches)
    harness.require_close(by_torch(), wanted, TOLERANCE, "logits of torch")

    def theirs() -> Any:
        return drawn(by_torch())

    theirs()  # sets up what it calls, as the comparison did for ours
    torch.cuda.synchronize()
    read = [*(x for layer in given.matrices for m in layer.values() for x in m.operands), *given.logits.operands]
    facts = {
        "weights": weights, "batch": batch, "error": error,
        "bytes": sum(x.nbytes for x in read) + sum(x.nbytes for pair in caches for x in pair),
    }  # fmt: skip
    return [
        harness.contender(harness.recorded(ours), kernel="lego", **facts),
        harness.contender(harness.recorded(theirs), kernel="torch.compile", **facts),
    ]


def table() -> None:
    """Tokens a second, and what part of the roof that is."""
    lines = []
    for (weights, batch), rows in mlir_kernels.measured_cases(NAME, CASES, "lego"):
        ours, theirs = rows["lego"], rows["torch.compile"]
        roof = ours["bytes"] / COPY_BYTES_A_S * 1e3
        cells = [f"{1e3 * batch / ours['ms']:.0f}", f"{theirs['ms'] / ours['ms']:.2f}", f"{roof / ours['ms']:.2f}"]
        lines.append([weights, str(batch), mlir_kernels.time_cell(ours), *cells])
    columns = "weights|sequences|ms (10th to 90th percentile)|tokens a second|torch.compile / ours|of the roof"
    mlir_kernels.put_results(PAGE, NAME, NAME, mlir_kernels.table(columns, lines), "torch")


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, target=TARGET)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
