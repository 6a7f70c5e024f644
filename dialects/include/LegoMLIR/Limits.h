//===- Limits.h - Bounds on what the parser accepts -------------*- C++ -*-===//
//
// Text may come from anywhere: every recursion and every allocation that its
// contents determine has a bound, checked while it is read.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_LIMITS_H
#define LEGOMLIR_LIMITS_H

#include <cstdint>

namespace lego {

/// Nested Padded(..) and tile_by(..).
inline constexpr unsigned kMaxDepth = 16;
/// Parentheses and operators of one size.
inline constexpr unsigned kMaxSizeNodes = 64;
/// Sizes of one permutation or view.
inline constexpr unsigned kMaxRank = 32;
/// Permutations in one layout.
inline constexpr unsigned kMaxPerms = 64;
/// Declared symbols of one layout.
inline constexpr unsigned kMaxSymbols = 32;
/// Positions of one layout: intermediate results stay below 2^63.
inline constexpr int64_t kMaxPositions = int64_t(1) << 62;
/// Entries of a table.
inline constexpr int64_t kMaxTable = int64_t(1) << 22;
/// Registers, lanes and warps of a spread tile: 4096 a thread, 64 a warp, 1024
/// threads a block.
inline constexpr unsigned kMaxRegisterBits = 12, kMaxLaneBits = 6,
                          kMaxThreadBits = 10;
/// Elements up to which the verifier of lego.genp enumerates.
inline constexpr int64_t kEnumeratedByVerifier = 1024;

} // namespace lego

#endif // LEGOMLIR_LIMITS_H
