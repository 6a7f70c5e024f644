; Math functions of f32 for NVPTX, in LLVM IR, so that kernels with exp, log, pow, tanh or sin compile with the Python
; packages alone. The names are those of NVIDIA's libdevice, which MLIR's convert-gpu-to-nvvm calls; what is not here is
; taken from libdevice where it is installed. Error bounds, in units of the last place, are measured by
; test/unit/toolchain/test_mathlib.py on the host and listed here:
;
;   exp 2   exp2 2   log 1   log2 2   log10 2   tanh 2   erf 3   sin 2, cos 2 (|x| <= 2^40, NaN beyond)
;   expm1 2   log1p 1   pow 2   sinh 2   cosh 2   tan 3 (|x| <= 2^40, NaN beyond)   asin 2   acos 2   atan 2   atan2 2
;   rsqrt 2 (rsqrt.approx)   sqrt, fma, floor, ceil, trunc, rint, round, fabs: exact or correctly rounded
;
; The coefficients of log, tanh, sin, cos and erf are those of S. L. Moshier's Cephes library (single precision).
; Those of the other functions were fitted: least squares at Chebyshev points, weighted towards equal relative errors.

declare float @llvm.nvvm.ex2.approx.f(float)
declare float @llvm.nvvm.ex2.approx.ftz.f(float)
declare float @llvm.nvvm.fma.rn.sat.f(float, float, float)
declare float @llvm.nvvm.fma.rm.f(float, float, float)
declare float @llvm.nvvm.rsqrt.approx.f(float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.floor.f32(float)
declare float @llvm.ceil.f32(float)
declare float @llvm.trunc.f32(float)
declare float @llvm.round.f32(float)
declare float @llvm.roundeven.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.copysign.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare float @llvm.maxnum.f32(float, float)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.fabs.f64(double)
declare double @llvm.floor.f64(double)
declare double @llvm.ceil.f64(double)
declare double @llvm.trunc.f64(double)
declare double @llvm.round.f64(double)
declare double @llvm.roundeven.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.copysign.f64(double, double)

; ---- one instruction each ----

define linkonce_odr float @__nv_fmaf(float %a, float %b, float %c) alwaysinline {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}
define linkonce_odr float @__nv_fabsf(float %x) alwaysinline {
  %r = call float @llvm.fabs.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_floorf(float %x) alwaysinline {
  %r = call float @llvm.floor.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_ceilf(float %x) alwaysinline {
  %r = call float @llvm.ceil.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_truncf(float %x) alwaysinline {
  %r = call float @llvm.trunc.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_roundf(float %x) alwaysinline {
  %r = call float @llvm.round.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_rintf(float %x) alwaysinline {
  %r = call float @llvm.roundeven.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_sqrtf(float %x) alwaysinline {
  %r = call float @llvm.sqrt.f32(float %x)
  ret float %r
}
define linkonce_odr float @__nv_copysignf(float %x, float %s) alwaysinline {
  %r = call float @llvm.copysign.f32(float %x, float %s)
  ret float %r
}
define linkonce_odr float @__nv_rsqrtf(float %x) alwaysinline {
  %r = call float @llvm.nvvm.rsqrt.approx.f(float %x)
  ret float %r
}
define linkonce_odr double @__nv_fma(double %a, double %b, double %c) alwaysinline {
  %r = call double @llvm.fma.f64(double %a, double %b, double %c)
  ret double %r
}
define linkonce_odr double @__nv_fabs(double %x) alwaysinline {
  %r = call double @llvm.fabs.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_floor(double %x) alwaysinline {
  %r = call double @llvm.floor.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_ceil(double %x) alwaysinline {
  %r = call double @llvm.ceil.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_trunc(double %x) alwaysinline {
  %r = call double @llvm.trunc.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_round(double %x) alwaysinline {
  %r = call double @llvm.round.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_rint(double %x) alwaysinline {
  %r = call double @llvm.roundeven.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_sqrt(double %x) alwaysinline {
  %r = call double @llvm.sqrt.f64(double %x)
  ret double %r
}
define linkonce_odr double @__nv_copysign(double %x, double %s) alwaysinline {
  %r = call double @llvm.copysign.f64(double %x, double %s)
  ret double %r
}

; ---- exponentials ----

; y * 2^n for y in [0.5, 2] and n in [-151, 130]: in two factors, so that the result alone may be subnormal or infinite.
define linkonce_odr float @lego_scale(float %y, float %n) alwaysinline {
  %i = fptosi float %n to i32
  %half = ashr i32 %i, 1
  %rest = sub i32 %i, %half
  %a = add i32 %half, 127
  %b = add i32 %rest, 127
  %c = shl i32 %a, 23
  %d = shl i32 %b, 23
  %p = bitcast i32 %c to float
  %q = bitcast i32 %d to float
  %r = fmul float %y, %p
  %s = fmul float %r, %q
  ret float %s
}

define linkonce_odr float @lego_clamp_exponent(float %t) alwaysinline {
  %low = call float @llvm.maxnum.f32(float %t, float -151.0)
  %both = call float @llvm.minnum.f32(float %low, float 130.0)
  %n = call float @llvm.roundeven.f32(float %both)
  ret float %n
}

; n + 126 + 12582913 for an integer n in [-126, 126] below t = scale * 252 * x, at most 1 below: in [0, 1] the number 0.5
; + t / 252 is (n + 126) / 252 and a rest. The last eight bits of the result are the exponent n of f32, with its bias.
define linkonce_odr float @lego_exponent(float %x, float %scale) alwaysinline {
  %share = call float @llvm.nvvm.fma.rn.sat.f(float %x, float %scale, float 0.5)
  %m = call float @llvm.nvvm.fma.rm.f(float %share, float 252.0, float 12582913.0)
  ret float %m
}

; 2^f * 2^n for m = n + 12583039. Where n is a bound, f is what it lacks: 2^f is infinite, or the product subnormal.
define linkonce_odr float @lego_two_to(float %f, float %m) alwaysinline {
  %y = call float @llvm.nvvm.ex2.approx.ftz.f(float %f)
  %bits = bitcast float %m to i32
  %e = shl i32 %bits, 23
  %p = bitcast i32 %e to float
  %r = fmul float %y, %p
  ret float %r
}

; exp(x) = 2^n * 2^f, n + f = x * log2(e), f with the bits that the product loses.
define linkonce_odr float @__nv_expf(float %x) alwaysinline {
  %m = call float @lego_exponent(float %x, float 0x3F777313C0000000)
  %n = fsub float %m, 12583039.0
  %minus = fneg float %n
  %f0 = call float @llvm.fma.f32(float %x, float 0x3FF7154760000000, float %minus)
  %f = call float @llvm.fma.f32(float %x, float 0x3E54AE0C00000000, float %f0)
  %r = call float @lego_two_to(float %f, float %m)
  ret float %r
}
define linkonce_odr float @__nv_exp2f(float %x) alwaysinline {
  %m = call float @lego_exponent(float %x, float 0x3F70410420000000)
  %n = fsub float %m, 12583039.0
  %f = fsub float %x, %n
  %r = call float @lego_two_to(float %f, float %m)
  ret float %r
}

; tanh(x) = x + x^3 P(x^2) for |x| < 0.625, else 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
define linkonce_odr float @__nv_tanhf(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %z = fmul float %x, %x
  %p0 = call float @llvm.fma.f32(float %z, float 0xBF775E1D40000000, float 0x3F952269C0000000)
  %p1 = call float @llvm.fma.f32(float %z, float %p0, float 0xBFAB83C5A0000000)
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float 0x3FC1107260000000)
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float 0xBFD5555320000000)
  %x3 = fmul float %x, %z
  %small = call float @llvm.fma.f32(float %x3, float %p3, float %x)
  %twice = fmul float %a, 2.0
  %e = call float @__nv_expf(float %twice)
  %d = fadd float %e, 1.0
  %q = fdiv float 2.0, %d
  %m = fsub float 1.0, %q
  %is_small = fcmp olt float %a, 0.625
  %v = select i1 %is_small, float %small, float %m
  %r = call float @llvm.copysign.f32(float %v, float %x) ; -0.0 too
  ret float %r
}

; ---- logarithms ----

; x = m * 2^e with m in [sqrt(1/2), sqrt(2)); { f = m - 1, y = log(m) - f, e }. x > 0 and finite.
define linkonce_odr { float, float, float } @lego_log_parts(float %x) alwaysinline {
  %subnormal = fcmp olt float %x, 0x3810000000000000
  %raised = fmul float %x, 0x4160000000000000
  %v = select i1 %subnormal, float %raised, float %x
  %bias = select i1 %subnormal, float -23.0, float 0.0
  %bits = bitcast float %v to i32
  %above = sub i32 %bits, 1060439283
  %ei = ashr i32 %above, 23
  %shifted = shl i32 %ei, 23
  %mbits = sub i32 %bits, %shifted
  %m = bitcast i32 %mbits to float
  %e0 = sitofp i32 %ei to float
  %e = fadd float %e0, %bias
  %f = fsub float %m, 1.0
  %z = fmul float %f, %f
  %p0 = call float @llvm.fma.f32(float %f, float 0x3FB2043760000000, float 0xBFBD7A3700000000)
  %p1 = call float @llvm.fma.f32(float %f, float %p0, float 0x3FBDE4A340000000)
  %p2 = call float @llvm.fma.f32(float %f, float %p1, float 0xBFBFCBA9E0000000)
  %p3 = call float @llvm.fma.f32(float %f, float %p2, float 0x3FC23D37E0000000)
  %p4 = call float @llvm.fma.f32(float %f, float %p3, float 0xBFC555CA00000000)
  %p5 = call float @llvm.fma.f32(float %f, float %p4, float 0x3FC999D580000000)
  %p6 = call float @llvm.fma.f32(float %f, float %p5, float 0xBFCFFFFF80000000)
  %p7 = call float @llvm.fma.f32(float %f, float %p6, float 0x3FD5555540000000)
  %fz = fmul float %f, %z
  %half = fmul float %z, -0.5
  %y = call float @llvm.fma.f32(float %fz, float %p7, float %half)
  %r0 = insertvalue { float, float, float } undef, float %f, 0
  %r1 = insertvalue { float, float, float } %r0, float %y, 1
  %r2 = insertvalue { float, float, float } %r1, float %e, 2
  ret { float, float, float } %r2
}

; What a logarithm is where x is not positive and finite, else %r.
define linkonce_odr float @lego_log_edges(float %x, float %r) alwaysinline {
  %finite = fcmp olt float %x, 0x7FF0000000000000
  %upper = select i1 %finite, float %r, float %x
  %zero = fcmp oeq float %x, 0.0
  %lower = select i1 %zero, float 0xFFF0000000000000, float %upper
  %negative = fcmp olt float %x, 0.0
  %all = select i1 %negative, float 0x7FF8000000000000, float %lower
  ret float %all
}
define linkonce_odr float @__nv_logf(float %x) alwaysinline {
  %parts = call { float, float, float } @lego_log_parts(float %x)
  %f = extractvalue { float, float, float } %parts, 0
  %y0 = extractvalue { float, float, float } %parts, 1
  %e = extractvalue { float, float, float } %parts, 2
  %y1 = call float @llvm.fma.f32(float %e, float 0xBF2BD01060000000, float %y0)
  %s = fadd float %f, %y1
  %r = call float @llvm.fma.f32(float %e, float 0x3FE6300000000000, float %s)
  %all = call float @lego_log_edges(float %x, float %r)
  ret float %all
}
; log2(x) = e + (f + y) * log2(e): exact for powers of two.
define linkonce_odr float @__nv_log2f(float %x) alwaysinline {
  %parts = call { float, float, float } @lego_log_parts(float %x)
  %f = extractvalue { float, float, float } %parts, 0
  %y = extractvalue { float, float, float } %parts, 1
  %e = extractvalue { float, float, float } %parts, 2
  %m0 = fmul float %y, 0x3FDC551DA0000000
  %m1 = call float @llvm.fma.f32(float %f, float 0x3FDC551DA0000000, float %m0)
  %m2 = fadd float %m1, %y
  %m3 = fadd float %m2, %f
  %r = fadd float %m3, %e
  %all = call float @lego_log_edges(float %x, float %r)
  ret float %all
}
define linkonce_odr float @__nv_log10f(float %x) alwaysinline {
  %parts = call { float, float, float } @lego_log_parts(float %x)
  %f = extractvalue { float, float, float } %parts, 0
  %y = extractvalue { float, float, float } %parts, 1
  %e = extractvalue { float, float, float } %parts, 2
  %m0 = fmul float %y, 0x3FDBCB7B20000000
  %m1 = call float @llvm.fma.f32(float %f, float 0x3FDBCB7B20000000, float %m0)
  %r = call float @llvm.fma.f32(float %e, float 0x3FD3441360000000, float %m1)
  %all = call float @lego_log_edges(float %x, float %r)
  ret float %all
}

; ---- sine and cosine ----

; x = q * pi/2 + r with |r| <= pi/4: { r, q }. Three parts of pi/2 in f32 up to 2^16, two in f64 beyond.
define linkonce_odr { float, i32 } @lego_quadrant(float %x) {
  %a = call float @llvm.fabs.f32(float %x)
  %near = fcmp ole float %a, 65536.0
  br i1 %near, label %single, label %double_path
single:
  %t = fmul float %x, 0x3FE45F3060000000
  %n = call float @llvm.roundeven.f32(float %t)
  %minus = fneg float %n
  %r0 = call float @llvm.fma.f32(float %minus, float 0x3FF921FB00000000, float %x)
  %r1 = call float @llvm.fma.f32(float %minus, float 0x3E95110B40000000, float %r0)
  %r2 = call float @llvm.fma.f32(float %minus, float 0x3CF8469880000000, float %r1)
  %q0 = fptosi float %n to i32
  br label %done
double_path:
  %far = fcmp ugt float %a, 0x4270000000000000
  %in = select i1 %far, float 0x7FF8000000000000, float %x
  %d = fpext float %in to double
  %dt = fmul double %d, 0x3FE45F306DC9C883
  %dn = call double @llvm.roundeven.f64(double %dt)
  %dm = fneg double %dn
  %d1 = call double @llvm.fma.f64(double %dm, double 0x3FF921FB54442D18, double %d)
  %d2 = call double @llvm.fma.f64(double %dm, double 0x3C91A62633145C07, double %d1)
  %r3 = fptrunc double %d2 to float
  %fourth = fmul double %dn, 0.25
  %whole = call double @llvm.floor.f64(double %fourth)
  %rest = call double @llvm.fma.f64(double %whole, double -4.0, double %dn)
  %finite = fcmp ord double %rest, 0.0
  %safe = select i1 %finite, double %rest, double 0.0
  %q1 = fptosi double %safe to i32
  br label %done
done:
  %r = phi float [ %r2, %single ], [ %r3, %double_path ]
  %q = phi i32 [ %q0, %single ], [ %q1, %double_path ]
  %s0 = insertvalue { float, i32 } undef, float %r, 0
  %s1 = insertvalue { float, i32 } %s0, i32 %q, 1
  ret { float, i32 } %s1
}

; sin(r + q * pi/2) for |r| <= pi/4: the sine or cosine polynomial by q's lowest bit, the sign by the next.
define linkonce_odr float @lego_sine_of(float %r, i32 %q) alwaysinline {
  %z = fmul float %r, %r
  %s0 = call float @llvm.fma.f32(float %z, float 0xBF29943F20000000, float 0x3F811073C0000000)
  %s1 = call float @llvm.fma.f32(float %z, float %s0, float 0xBFC5555460000000)
  %rz = fmul float %r, %z
  %sine = call float @llvm.fma.f32(float %rz, float %s1, float %r)
  %c0 = call float @llvm.fma.f32(float %z, float 0x3EF99EB9C0000000, float 0xBF56C0C340000000)
  %c1 = call float @llvm.fma.f32(float %z, float %c0, float 0x3FA55554A0000000)
  %c2 = call float @llvm.fma.f32(float %z, float %c1, float -0.5)
  %cosine = call float @llvm.fma.f32(float %z, float %c2, float 1.0)
  %low = and i32 %q, 1
  %odd = icmp ne i32 %low, 0
  %v = select i1 %odd, float %cosine, float %sine
  %high = and i32 %q, 2
  %turned = icmp ne i32 %high, 0
  %minus = fneg float %v
  %w = select i1 %turned, float %minus, float %v
  ret float %w
}
define linkonce_odr float @__nv_sinf(float %x) {
  %parts = call { float, i32 } @lego_quadrant(float %x)
  %r = extractvalue { float, i32 } %parts, 0
  %q = extractvalue { float, i32 } %parts, 1
  %s = call float @lego_sine_of(float %r, i32 %q)
  %is_zero = fcmp oeq float %x, 0.0 ; -0.0 too, whose sign the remainder loses
  %v = select i1 %is_zero, float %x, float %s
  ret float %v
}
define linkonce_odr float @__nv_cosf(float %x) {
  %parts = call { float, i32 } @lego_quadrant(float %x)
  %r = extractvalue { float, i32 } %parts, 0
  %q = extractvalue { float, i32 } %parts, 1
  %next = add i32 %q, 1
  %c = call float @lego_sine_of(float %r, i32 %next)
  ret float %c
}

; ---- the error function ----

; erf(x) = x T(x^2) for |x| <= 1, else 1 - exp(-x^2) q P(q^2) with q = 1 / |x| and the sign of x; R beyond 2.
define linkonce_odr float @__nv_erff(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %z = fmul float %x, %x
  %t0 = call float @llvm.fma.f32(float %z, float 0x3F1496A320000000, float 0xBF4A3F7000000000)
  %t1 = call float @llvm.fma.f32(float %z, float %t0, float 0x3F75405B20000000)
  %t2 = call float @llvm.fma.f32(float %z, float %t1, float 0xBF9B7F90E0000000)
  %t3 = call float @llvm.fma.f32(float %z, float %t2, float 0x3FBCE2CF80000000)
  %t4 = call float @llvm.fma.f32(float %z, float %t3, float 0xBFD81273E0000000)
  %t5 = call float @llvm.fma.f32(float %z, float %t4, float 0x3FF20DD740000000)
  %small = fmul float %x, %t5
  %q = fdiv float 1.0, %a
  %y = fmul float %q, %q
  %p0 = call float @llvm.fma.f32(float %y, float 0x3F97D39E80000000, float 0xBFC1C10D00000000)
  %p1 = call float @llvm.fma.f32(float %y, float %p0, float 0x3FD7997A00000000)
  %p2 = call float @llvm.fma.f32(float %y, float %p1, float 0xBFE2A39F00000000)
  %p3 = call float @llvm.fma.f32(float %y, float %p2, float 0x3FE3DF3C60000000)
  %p4 = call float @llvm.fma.f32(float %y, float %p3, float 0xBFDFA51800000000)
  %p5 = call float @llvm.fma.f32(float %y, float %p4, float 0x3FD5CA8E20000000)
  %p6 = call float @llvm.fma.f32(float %y, float %p5, float 0xBFD18B1000000000)
  %p7 = call float @llvm.fma.f32(float %y, float %p6, float 0x3FE20ADCC0000000)
  %r0 = call float @llvm.fma.f32(float %y, float 0xC024F49060000000, float 0x4029F45380000000)
  %r1 = call float @llvm.fma.f32(float %y, float %r0, float 0xC01DFB6940000000)
  %r2 = call float @llvm.fma.f32(float %y, float %r1, float 0x40075E3F40000000)
  %r3 = call float @llvm.fma.f32(float %y, float %r2, float 0xBFF03E86C0000000)
  %r4 = call float @llvm.fma.f32(float %y, float %r3, float 0x3FDAFF87C0000000)
  %r5 = call float @llvm.fma.f32(float %y, float %r4, float 0xBFD20D8BA0000000)
  %r6 = call float @llvm.fma.f32(float %y, float %r5, float 0x3FE20DD720000000)
  %beyond = fcmp ogt float %a, 2.0
  %poly = select i1 %beyond, float %r6, float %p7
  %minus = fneg float %z
  %e = call float @__nv_expf(float %minus)
  %eq = fmul float %e, %q
  %c = fmul float %eq, %poly
  %m = fsub float 1.0, %c
  %large = call float @llvm.copysign.f32(float %m, float %x)
  %is_large = fcmp ogt float %a, 1.0
  %result = select i1 %is_large, float %large, float %small
  ret float %result
}

; ---- inverse trigonometric functions ----

; atan(t) = t + t^3 P(t^2) for t in [0, 1].
define linkonce_odr float @lego_atan_unit(float %t) alwaysinline {
  %z = fmul float %t, %t
  %p0 = call float @llvm.fma.f32(float %z, float 0x3F67EC9580000000, float 0xBF90C27AC0000000)
  %p1 = call float @llvm.fma.f32(float %z, float %p0, float 0x3FA61FA4A0000000)
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float 0xBFB3555360000000)
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float 0x3FBB4E07A0000000)
  %p4 = call float @llvm.fma.f32(float %z, float %p3, float 0xBFC230AC60000000)
  %p5 = call float @llvm.fma.f32(float %z, float %p4, float 0x3FC9978F20000000)
  %p6 = call float @llvm.fma.f32(float %z, float %p5, float 0xBFD5554DC0000000)
  %pz = fmul float %p6, %z
  %result = call float @llvm.fma.f32(float %pz, float %t, float %t)
  ret float %result
}

; atan(x) = pi/2 - atan(1/x) beyond 1; pi/2 in two parts.
define linkonce_odr float @__nv_atanf(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %beyond = fcmp ogt float %a, 1.0
  %q = fdiv float 1.0, %a
  %t = select i1 %beyond, float %q, float %a
  %r = call float @lego_atan_unit(float %t)
  %rest = fsub float 0x3FF921FB60000000, %r
  %far = fadd float %rest, 0xBE6777A5C0000000
  %size = select i1 %beyond, float %far, float %r
  %result = call float @llvm.copysign.f32(float %size, float %x)
  ret float %result
}

; The angle of (x, y) from that in the first octant; at (0, 0) and (inf, inf) the quotient is 0 and 1.
define linkonce_odr float @__nv_atan2f(float %y, float %x) alwaysinline {
  %ax = call float @llvm.fabs.f32(float %x)
  %ay = call float @llvm.fabs.f32(float %y)
  %steep = fcmp ogt float %ay, %ax
  %large = select i1 %steep, float %ay, float %ax
  %small = select i1 %steep, float %ax, float %ay
  %q = fdiv float %small, %large
  %same = fcmp oeq float %ax, %ay
  %origin = fcmp oeq float %large, 0.0
  %diagonal = select i1 %origin, float 0.0, float 1.0
  %t = select i1 %same, float %diagonal, float %q
  %r = call float @lego_atan_unit(float %t)
  %rest = fsub float 0x3FF921FB60000000, %r
  %mirrored = fadd float %rest, 0xBE6777A5C0000000
  %first = select i1 %steep, float %mirrored, float %r
  %left0 = fsub float 0x400921FB60000000, %first
  %left = fadd float %left0, 0xBE7777A5C0000000
  %sign = bitcast float %x to i32
  %is_left = icmp slt i32 %sign, 0
  %size = select i1 %is_left, float %left, float %first
  %angle = call float @llvm.copysign.f32(float %size, float %y)
  %is_nan = fcmp uno float %x, %y
  %nan = fadd float %x, %y
  %result = select i1 %is_nan, float %nan, float %angle
  ret float %result
}

; asin(s) = s + s z P(z) for s in [0, 1/2] and z = s^2.
define linkonce_odr float @lego_asin_half(float %s, float %z) alwaysinline {
  %p0 = call float @llvm.fma.f32(float %z, float 0x3FA59F39E0000000, float 0x3F98B86EC0000000)
  %p1 = call float @llvm.fma.f32(float %z, float %p0, float 0x3FA748EFA0000000)
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float 0x3FB3301360000000)
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float 0x3FC5555CA0000000)
  %pz = fmul float %p3, %z
  %result = call float @llvm.fma.f32(float %pz, float %s, float %s)
  ret float %result
}

; For |x| > 1/2 both functions use s = sqrt((1 - |x|) / 2): asin(|x|) = pi/2 - 2 asin(s), acos(|x|) = 2 asin(s).
; { |x| or s, its square, whether |x| > 1/2 }
define linkonce_odr { float, float, i1 } @lego_asin_parts(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %beyond = fcmp ogt float %a, 0.5
  %zb = call float @llvm.fma.f32(float -0.5, float %a, float 0.5)
  %sb = call float @llvm.sqrt.f32(float %zb)
  %za = fmul float %x, %x
  %z = select i1 %beyond, float %zb, float %za
  %s = select i1 %beyond, float %sb, float %a
  %t0 = insertvalue { float, float, i1 } undef, float %s, 0
  %t1 = insertvalue { float, float, i1 } %t0, float %z, 1
  %t2 = insertvalue { float, float, i1 } %t1, i1 %beyond, 2
  ret { float, float, i1 } %t2
}
define linkonce_odr float @__nv_asinf(float %x) alwaysinline {
  %parts = call { float, float, i1 } @lego_asin_parts(float %x)
  %s = extractvalue { float, float, i1 } %parts, 0
  %z = extractvalue { float, float, i1 } %parts, 1
  %beyond = extractvalue { float, float, i1 } %parts, 2
  %r = call float @lego_asin_half(float %s, float %z)
  %far0 = call float @llvm.fma.f32(float -2.0, float %r, float 0x3FF921FB60000000)
  %far = fadd float %far0, 0xBE6777A5C0000000
  %size = select i1 %beyond, float %far, float %r
  %result = call float @llvm.copysign.f32(float %size, float %x)
  ret float %result
}
define linkonce_odr float @__nv_acosf(float %x) alwaysinline {
  %parts = call { float, float, i1 } @lego_asin_parts(float %x)
  %s = extractvalue { float, float, i1 } %parts, 0
  %z = extractvalue { float, float, i1 } %parts, 1
  %beyond = extractvalue { float, float, i1 } %parts, 2
  %r = call float @lego_asin_half(float %s, float %z)
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  %near0 = fsub float 0x3FF921FB60000000, %signed
  %near = fadd float %near0, 0xBE6777A5C0000000
  %twice = fadd float %r, %r
  %left0 = fsub float 0x400921FB60000000, %twice
  %left = fadd float %left0, 0xBE7777A5C0000000
  %is_left = fcmp olt float %x, 0.0
  %far = select i1 %is_left, float %left, float %twice
  %result = select i1 %beyond, float %far, float %near
  ret float %result
}

; ---- the tangent ----

; tan(r) = r + r^3 P(r^2) for |r| <= pi/4, and -1 / tan(r) in odd quadrants.
define linkonce_odr float @__nv_tanf(float %x) {
  %parts = call { float, i32 } @lego_quadrant(float %x)
  %r = extractvalue { float, i32 } %parts, 0
  %q = extractvalue { float, i32 } %parts, 1
  %z = fmul float %r, %r
  %p0 = call float @llvm.fma.f32(float %z, float 0x3F83429960000000, float 0x3F694CDA60000000)
  %p1 = call float @llvm.fma.f32(float %z, float %p0, float 0x3F99094620000000)
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float 0x3FAB580720000000)
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float 0x3FC112E0E0000000)
  %p4 = call float @llvm.fma.f32(float %z, float %p3, float 0x3FD5554DE0000000)
  %pz = fmul float %p4, %z
  %t = call float @llvm.fma.f32(float %pz, float %r, float %r)
  %turned = fdiv float -1.0, %t
  %low = and i32 %q, 1
  %odd = icmp ne i32 %low, 0
  %found = select i1 %odd, float %turned, float %t
  %is_zero = fcmp oeq float %x, 0.0
  %result = select i1 %is_zero, float %x, float %found
  ret float %result
}

; ---- hyperbolic functions ----

; exp(x) / 2, finite where sinh and cosh are.
define linkonce_odr float @lego_half_exp(float %x) alwaysinline {
  %t = fmul float %x, 0x3FF7154760000000
  %n = call float @lego_clamp_exponent(float %t)
  %minus = fneg float %n
  %f0 = call float @llvm.fma.f32(float %x, float 0x3FF7154760000000, float %minus)
  %f = call float @llvm.fma.f32(float %x, float 0x3E54AE0C00000000, float %f0)
  %y = call float @llvm.nvvm.ex2.approx.f(float %f)
  %m = fadd float %n, -1.0
  %result = call float @lego_scale(float %y, float %m)
  ret float %result
}

; sinh(x) = x + x^3 P(x^2) for |x| < 1, else h - 1 / 4h with h = exp(|x|) / 2 and the sign of x.
define linkonce_odr float @__nv_sinhf(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %z = fmul float %x, %x
  %p0 = call float @llvm.fma.f32(float %z, float 0x3EC7A26840000000, float 0x3F29FFE120000000)
  %p1 = call float @llvm.fma.f32(float %z, float %p0, float 0x3F81111360000000)
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float 0x3FC5555560000000)
  %pz = fmul float %p2, %z
  %small = call float @llvm.fma.f32(float %pz, float %x, float %x)
  %h = call float @lego_half_exp(float %a)
  %q = fdiv float 0.25, %h
  %m = fsub float %h, %q
  %large = call float @llvm.copysign.f32(float %m, float %x)
  %is_small = fcmp olt float %a, 1.0
  %result = select i1 %is_small, float %small, float %large
  ret float %result
}
define linkonce_odr float @__nv_coshf(float %x) alwaysinline {
  %a = call float @llvm.fabs.f32(float %x)
  %h = call float @lego_half_exp(float %a)
  %q = fdiv float 0.25, %h
  %result = fadd float %h, %q
  ret float %result
}

; ---- exponentials and logarithms near 0 and 1 ----

; expm1(x) = 2^n e + (2^n - 1), e = expm1(r) = r + r^2 P(r), r = x - n log(2); in halves, so that 2^128 does not occur.
define linkonce_odr float @__nv_expm1f(float %x) alwaysinline {
  %t = fmul float %x, 0x3FF7154760000000
  %low = call float @llvm.maxnum.f32(float %t, float -26.0)
  %both = call float @llvm.minnum.f32(float %low, float 129.0)
  %n = call float @llvm.roundeven.f32(float %both)
  %r0 = call float @llvm.fma.f32(float %n, float 0xBFE62E4300000000, float %x)
  %r = call float @llvm.fma.f32(float %n, float 0x3E205C6100000000, float %r0)
  %p0 = call float @llvm.fma.f32(float %r, float 0x3F2A034BC0000000, float 0x3F56D72D20000000)
  %p1 = call float @llvm.fma.f32(float %r, float %p0, float 0x3F81111880000000)
  %p2 = call float @llvm.fma.f32(float %r, float %p1, float 0x3FA5554B00000000)
  %p3 = call float @llvm.fma.f32(float %r, float %p2, float 0x3FC5555540000000)
  %p4 = call float @llvm.fma.f32(float %r, float %p3, float 0.5)
  %rr = fmul float %r, %r
  %e = call float @llvm.fma.f32(float %rr, float %p4, float %r)
  %i = fptosi float %n to i32
  %j = add i32 %i, 126
  %k = shl i32 %j, 23
  %half = bitcast i32 %k to float
  %less = fsub float %half, 0.5
  %w = call float @llvm.fma.f32(float %e, float %half, float %less)
  %twice = fadd float %w, %w
  %near = fcmp oeq float %n, 0.0
  %v0 = select i1 %near, float %e, float %twice
  %is_zero = fcmp oeq float %x, 0.0
  %v1 = select i1 %is_zero, float %x, float %v0
  %over = fcmp ogt float %t, 128.5
  %v2 = select i1 %over, float 0x7FF0000000000000, float %v1
  %under = fcmp olt float %t, -26.0
  %v3 = select i1 %under, float -1.0, float %v2
  %is_nan = fcmp uno float %x, 0.0
  %result = select i1 %is_nan, float %x, float %v3
  ret float %result
}

; log1p(x) = log1p(m) + e log(2), 1 + x = (1 + m) 2^e with m in [-1/4, 1/2]: m = x 2^-e + (2^-e - 1).
define linkonce_odr float @__nv_log1pf(float %x) alwaysinline {
  %u = fadd float %x, 1.0
  %ub = bitcast float %u to i32
  %over = sub i32 %ub, 1061158912
  %e = and i32 %over, -8388608
  %xb = bitcast float %x to i32
  %mb = sub i32 %xb, %e
  %m0 = bitcast i32 %mb to float
  %sb = sub i32 1082130432, %e
  %s = bitcast i32 %sb to float
  %less = call float @llvm.fma.f32(float 0.25, float %s, float -1.0)
  %m = fadd float %m0, %less
  %p0 = call float @llvm.fma.f32(float %m, float 0xBFA7157E00000000, float 0x3FBACA85C0000000)
  %p1 = call float @llvm.fma.f32(float %m, float %p0, float 0xBFC0D918E0000000)
  %p2 = call float @llvm.fma.f32(float %m, float %p1, float 0x3FC2885140000000)
  %p3 = call float @llvm.fma.f32(float %m, float %p2, float 0xBFC54EF400000000)
  %p4 = call float @llvm.fma.f32(float %m, float %p3, float 0x3FC9969900000000)
  %p5 = call float @llvm.fma.f32(float %m, float %p4, float 0xBFD0000420000000)
  %p6 = call float @llvm.fma.f32(float %m, float %p5, float 0x3FD5555A40000000)
  %p7 = call float @llvm.fma.f32(float %m, float %p6, float -0.5)
  %z = fmul float %m, %m
  %small = call float @llvm.fma.f32(float %z, float %p7, float %m)
  %ef = sitofp i32 %e to float
  %log = call float @llvm.fma.f32(float %ef, float 0x3E762E4300000000, float %small)
  %is_one = fcmp oeq float %x, -1.0
  %edge = select i1 %is_one, float 0xFFF0000000000000, float 0x7FF8000000000000
  %inside = fcmp ogt float %x, -1.0
  %v0 = select i1 %inside, float %log, float %edge
  %is_inf = fcmp oeq float %x, 0x7FF0000000000000
  %v1 = select i1 %is_inf, float 0x7FF0000000000000, float %v0
  %is_zero = fcmp oeq float %x, 0.0
  %result = select i1 %is_zero, float %x, float %v1
  ret float %result
}

; ---- powers ----

; log(a) as the sum of two floats, so that exp of it times any y is accurate; a > 0 and finite. a = m 2^i with m in
; [2/3, 4/3), and
; log(m) = 2 s + s^3 (2/3 + s^2 Q(s^2)) with s = (m - 1) / (m + 1); s, its square and the sum are pairs { high, low }.
define linkonce_odr { float, float } @lego_log_pair(float %a) {
  %tiny = fcmp olt float %a, 0x3810000000000000
  %scaled = fmul float %a, 16777216.0
  %n = select i1 %tiny, float %scaled, float %a
  %extra = select i1 %tiny, float -24.0, float 0.0
  %nb = bitcast float %n to i32
  %above = sub i32 %nb, 1059760811
  %e = and i32 %above, -8388608
  %mb = sub i32 %nb, %e
  %m = bitcast i32 %mb to float
  %ei = ashr i32 %e, 23
  %i0 = sitofp i32 %ei to float
  %i = fadd float %i0, %extra
  %f = fsub float %m, 1.0
  %ph = fadd float %m, 1.0
  %pm = fsub float %ph, 1.0
  %pl = fsub float %m, %pm
  %sh = fdiv float %f, %ph
  %ms = fneg float %sh
  %r0 = call float @llvm.fma.f32(float %ms, float %ph, float %f)
  %r1 = call float @llvm.fma.f32(float %ms, float %pl, float %r0)
  %sl = fdiv float %r1, %ph
  %zh = fmul float %sh, %sh
  %mz = fneg float %zh
  %zl0 = call float @llvm.fma.f32(float %sh, float %sh, float %mz)
  %s2 = fadd float %sh, %sh
  %zl = call float @llvm.fma.f32(float %s2, float %sl, float %zl0)
  %q0 = call float @llvm.fma.f32(float %zh, float 0x3FC993F8A0000000, float 0x3FCC5A2580000000)
  %q1 = call float @llvm.fma.f32(float %zh, float %q0, float 0x3FD2495680000000)
  %q2 = call float @llvm.fma.f32(float %zh, float %q1, float 0x3FD9999960000000)
  %th = fmul float %q2, %zh
  %mt = fneg float %th
  %tl0 = call float @llvm.fma.f32(float %q2, float %zh, float %mt)
  %tl = call float @llvm.fma.f32(float %q2, float %zl, float %tl0)
  %gh = fadd float %th, 0x3FE5555560000000
  %g0 = fsub float 0x3FE5555560000000, %gh
  %g1 = fadd float %g0, %th
  %g2 = fadd float %tl, 0xBE55555560000000
  %gl = fadd float %g1, %g2
  %ch = fmul float %sh, %zh
  %mc = fneg float %ch
  %cl0 = call float @llvm.fma.f32(float %sh, float %zh, float %mc)
  %cl1 = call float @llvm.fma.f32(float %sh, float %zl, float %cl0)
  %cl = call float @llvm.fma.f32(float %sl, float %zh, float %cl1)
  %dh = fmul float %ch, %gh
  %md = fneg float %dh
  %dl0 = call float @llvm.fma.f32(float %ch, float %gh, float %md)
  %dl1 = call float @llvm.fma.f32(float %ch, float %gl, float %dl0)
  %dl = call float @llvm.fma.f32(float %cl, float %gh, float %dl1)
  %uh = fadd float %s2, %dh
  %u0 = fsub float %s2, %uh
  %u1 = fadd float %u0, %dh
  %u2 = call float @llvm.fma.f32(float 2.0, float %sl, float %dl)
  %ul = fadd float %u1, %u2
  %k = fmul float %i, 0x3FE62E4000000000
  %vh = fadd float %k, %uh
  %ka = call float @llvm.fabs.f32(float %k)
  %ua = call float @llvm.fabs.f32(float %uh)
  %swap = fcmp ogt float %ua, %ka
  %big = select i1 %swap, float %uh, float %k
  %rest = select i1 %swap, float %k, float %uh
  %v0 = fsub float %big, %vh
  %v1 = fadd float %v0, %rest
  %v2 = call float @llvm.fma.f32(float %i, float 0x3EB7F7D1C0000000, float %ul)
  %vl = fadd float %v1, %v2
  %high = fadd float %vh, %vl
  %l0 = fsub float %vh, %high
  %low = fadd float %l0, %vl
  %pair0 = insertvalue { float, float } undef, float %high, 0
  %pair1 = insertvalue { float, float } %pair0, float %low, 1
  ret { float, float } %pair1
}

; a^y = exp(y log(a)) for a > 0 and finite.
define linkonce_odr float @lego_power(float %a, float %y) {
  %log = call { float, float } @lego_log_pair(float %a)
  %h = extractvalue { float, float } %log, 0
  %l = extractvalue { float, float } %log, 1
  %th = fmul float %y, %h
  %mt = fneg float %th
  %tl0 = call float @llvm.fma.f32(float %y, float %h, float %mt)
  %tl = call float @llvm.fma.f32(float %y, float %l, float %tl0)
  %t = fmul float %th, 0x3FF7154760000000
  %n = call float @lego_clamp_exponent(float %t)
  %r0 = call float @llvm.fma.f32(float %n, float 0xBFE62E4000000000, float %th)
  %r1 = call float @llvm.fma.f32(float %n, float 0xBEB7F7D1C0000000, float %r0)
  %r = fadd float %r1, %tl
  %p0 = call float @llvm.fma.f32(float %r, float 0x3F2A1AC180000000, float 0x3F56D980C0000000)
  %p1 = call float @llvm.fma.f32(float %r, float %p0, float 0x3F81110860000000)
  %p2 = call float @llvm.fma.f32(float %r, float %p1, float 0x3FA55547E0000000)
  %p3 = call float @llvm.fma.f32(float %r, float %p2, float 0x3FC5555560000000)
  %p4 = call float @llvm.fma.f32(float %r, float %p3, float 0.5)
  %rr = fmul float %r, %r
  %e0 = call float @llvm.fma.f32(float %rr, float %p4, float %r)
  %e = fadd float %e0, 1.0
  %v0 = call float @lego_scale(float %e, float %n)
  %over = fcmp oge float %t, 129.0
  %v1 = select i1 %over, float 0x7FF0000000000000, float %v0
  %under = fcmp ole float %t, -151.0
  %result = select i1 %under, float 0.0, float %v1
  ret float %result
}

; The cases of IEEE 754's pow: |x| of 0, 1 and infinity, infinite y, the sign of odd powers, NaN.
define linkonce_odr float @__nv_powf(float %x, float %y) {
  %a = call float @llvm.fabs.f32(float %x)
  %plain = call float @lego_power(float %a, float %y)
  %is_zero = fcmp oeq float %a, 0.0
  %is_inf = fcmp oeq float %a, 0x7FF0000000000000
  %at_end = or i1 %is_zero, %is_inf
  %falls = fcmp olt float %y, 0.0
  %differs = xor i1 %is_zero, %falls
  %end = select i1 %differs, float 0.0, float 0x7FF0000000000000
  %v0 = select i1 %at_end, float %end, float %plain
  %ya = call float @llvm.fabs.f32(float %y)
  %y_inf = fcmp oeq float %ya, 0x7FF0000000000000
  %above = fcmp ogt float %a, 1.0
  %rises = fcmp ogt float %y, 0.0
  %shrinks = xor i1 %above, %rises
  %far = select i1 %shrinks, float 0.0, float 0x7FF0000000000000
  %is_unit = fcmp oeq float %a, 1.0
  %limit = select i1 %is_unit, float 1.0, float %far
  %v1 = select i1 %y_inf, float %limit, float %v0
  %yt = call float @llvm.trunc.f32(float %y)
  %whole = fcmp oeq float %yt, %y
  %yh = fmul float %y, 0.5
  %yht = call float @llvm.trunc.f32(float %yh)
  %uneven = fcmp une float %yht, %yh
  %odd = and i1 %whole, %uneven
  %xb = bitcast float %x to i32
  %negative = icmp slt i32 %xb, 0
  %flips = and i1 %odd, %negative
  %minus = fneg float %v1
  %v2 = select i1 %flips, float %minus, float %v1
  %broken = xor i1 %whole, true
  %finite = xor i1 %at_end, true
  %n0 = and i1 %negative, %broken
  %undefined = and i1 %n0, %finite
  %v3 = select i1 %undefined, float 0x7FF8000000000000, float %v2
  %is_nan = fcmp uno float %x, %y
  %nan = fadd float %x, %y
  %v4 = select i1 %is_nan, float %nan, float %v3
  %x_one = fcmp oeq float %x, 1.0
  %y_zero = fcmp oeq float %y, 0.0
  %trivial = or i1 %x_one, %y_zero
  %result = select i1 %trivial, float 1.0, float %v4
  ret float %result
}
