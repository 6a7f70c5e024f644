"""Triton's linear layouts of encodings, for comparison: a process that reads one request a line and answers in one.

A request is JSON: `[encoding, shape]` with the encoding as `[class name, arguments]`, answered by the bases of each
input; or `["compose", inner, outer, point]` and `["pseudoinvert", layout]` with layouts in Triton's notation. Triton's
C++ aborts on input that it does not take: `of` starts the process again after the line at which it died, and answers
None there.
"""

import json
import subprocess
import sys
from typing import Any


def of(requests: list[Any]) -> list[Any]:
    """The answer to each request: {input: bases}, or None where Triton refuses or dies."""
    answers: list[Any] = []
    while len(answers) < len(requests):
        lines = "\n".join(json.dumps(r) for r in requests[len(answers) :])
        done = subprocess.run([sys.executable, __file__], input=lines, capture_output=True, text=True, check=False)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "[", "null"))]
        answers.extend(found)
        if len(answers) < len(requests):
            answers.append(None)
    return answers


def _built(encoding: Any) -> Any:
    """A Gluon layout from its description."""
    from triton.experimental.gluon.language import _layouts
    from triton.experimental.gluon.language.amd import _layouts as amd

    name, arguments = encoding
    kind = getattr(_layouts, name, None) or getattr(amd, name)
    values = {k: _built(v) if isinstance(v, list) and v and isinstance(v[0], str) else v for k, v in arguments.items()}
    return kind(**values)


def _answer(builder: Any, encoding: Any, shape: list[int]) -> dict[str, Any]:
    layout = _built(encoding)
    found = builder.to_linear_layout(layout._to_ir(builder), shape)
    if hasattr(found, "offset_bases"):
        return {"offset": found.offset_bases, "block": found.block_bases}
    bases = {"register": found.reg_bases, "lane": found.lane_bases, "warp": found.warp_bases}
    return {**bases, "block": found.block_bases}


def _layout(described: Any) -> Any:
    """A linear layout from its bases, its output names and sizes."""
    from triton.tools import LinearLayout

    bases, names, sizes = described
    return LinearLayout.from_bases([(n, b) for n, b in bases], names, sizes, require_surjective=False)


def _composed(inner: Any, outer: Any, point: dict[str, int]) -> list[Any]:
    """The bases of `outer` after `inner`, and its value at a point."""
    whole = _layout(inner).compose(_layout(outer))
    return [whole.bases, whole.apply(point)]


def _answered(builder: Any, request: list[Any]) -> Any:
    if request[0] == "compose":
        return _composed(*request[1:])
    if request[0] == "pseudoinvert":
        return _layout(request[1]).pseudoinvert().bases
    return _answer(builder, *request)


def main() -> None:
    from triton._C.libtriton import ir
    from triton._C.libtriton.gluon_ir import GluonOpBuilder

    context = ir.context()
    ir.load_dialects(context)
    builder = GluonOpBuilder(context)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = json.dumps(_answered(builder, request))
        except Exception as error:
            print(f"{request}: {error}", file=sys.stderr)
            answer = "null"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
