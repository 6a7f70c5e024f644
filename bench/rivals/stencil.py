"""3-D stencils by hand: row-major, one output a thread, a fixed offset for each point."""


def source(n: int, points: list[tuple[int, int, int, float]], block: tuple[int, int, int]) -> str:
    """CUDA C++ for an n^3 cube and these points."""
    radius = max(abs(d) for p in points for d in p[:3])
    terms = "\n".join(f"  sum += {w!r}f * in[at + {(dz * n + dy) * n + dx}];" for dz, dy, dx, w in points)
    bounds = " || ".join(f"{c} < {radius} || {c} >= {n - radius}" for c in "zyx")
    ids = "\n".join(
        f"  const int {c} = blockIdx.{c} * {size} + threadIdx.{c};" for c, size in zip("zyx", block, strict=True)
    )
    return f"""
extern "C" __global__ void stencil(const float *__restrict__ in, float *__restrict__ out) {{
{ids}
  if ({bounds}) return;
  const int at = (z * {n} + y) * {n} + x;
  float sum = 0.0f;
{terms}
  out[at] = sum;
}}
"""
