"""3-D stencils by hand, row-major: one output a thread with a fixed offset for each point; or four by four."""


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


PLANES = WIDTH = 4


def source_of_blocks(n: int, points: list[tuple[int, int, int, float]], block: tuple[int, int, int]) -> str:
    """CUDA C++ for the same, four planes of a float4 a thread, every row read once and kept in registers."""
    radius = max(abs(d) for p in points for d in p[:3])
    rows: dict[tuple[int, int], set[int]] = {}
    for dz, dy, dx, _ in points:
        for p in range(PLANES):
            rows.setdefault((p + dz, dy), set()).update(range(dx, dx + WIDTH))
    value = "v[{}][{}][{}]".format
    reads = []
    for (dz, dy), places in sorted(rows.items()):
        at, guard = f"in[at + {(dz * n + dy) * n}", ""
        if dz < 0:
            guard = f"if (z >= {-dz}) "
        elif dz >= PLANES:
            guard = f"if (z < {n - dz}) "
        quad = "".join(f" {value(dz + radius, dy + radius, i + radius)} = q.{'xyzw'[i]};" for i in range(WIDTH))
        ends = "".join(
            f" if (x {_inside(i, n)}) {value(dz + radius, dy + radius, i + radius)} = {at} + {i}];"
            for i in sorted(places - set(range(WIDTH)))
        )
        reads.append(f"  {guard}{{ const float4 q = *(const float4 *)&{at}];{quad}{ends} }}")
    terms = "\n".join(
        f"      s[i] += {w!r}f * v[p + {dz + radius}][{dy + radius}][i + {dx + radius}];" for dz, dy, dx, w in points
    )
    nl = "\n"
    return f"""
extern "C" __global__ void __launch_bounds__({block[0] * block[1] * block[2]})
stencil(const float *__restrict__ in, float *__restrict__ out) {{
  const int z = (blockIdx.z * {block[0]} + threadIdx.z) * {PLANES};
  const int y = blockIdx.y * {block[1]} + threadIdx.y;
  const int x = (blockIdx.x * {block[2]} + threadIdx.x) * {WIDTH};
  if (y < {radius} || y >= {n - radius}) return;
  const int at = (z * {n} + y) * {n} + x;
  float v[{PLANES + 2 * radius}][{2 * radius + 1}][{WIDTH + 2 * radius}] = {{}};
{nl.join(reads)}
#pragma unroll
  for (int p = 0; p < {PLANES}; ++p) {{
    float s[{WIDTH}] = {{}};
#pragma unroll
    for (int i = 0; i < {WIDTH}; ++i) {{
{terms}
    }}
    if (z + p < {radius} || z + p >= {n - radius}) continue;
    if (x >= {radius} && x + {WIDTH} <= {n - radius}) {{
      *(float4 *)&out[at + p * {n * n}] = make_float4(s[0], s[1], s[2], s[3]);
    }} else {{
#pragma unroll
      for (int i = 0; i < {WIDTH}; ++i)
        if (x + i >= {radius} && x + i < {n - radius}) out[at + p * {n * n} + i] = s[i];
    }}
  }}
}}
"""


def _inside(i: int, n: int) -> str:
    return f">= {-i}" if i < 0 else f"< {n - i}"
