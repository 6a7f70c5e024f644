//===- AttributePrinter.cpp - The printer of #lego.layout -------*- C++ -*-===//
//
// Prints the shortest form of a layout that the parser reads back: Row, Col,
// TileBy and names of the gallery instead of the permutations that they name.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Lego.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

namespace {

class LayoutPrinter {
public:
  LayoutPrinter(raw_ostream &os, ArrayRef<SymbolAttr> symbols)
      : os(os), symbols(symbols) {}

  void printSymbols();
  void printView(Attribute view);

private:
  void printGroup(GroupByAttr group);
  void printOrder(OrderByAttr order);
  void printPerm(Attribute perm);
  void printRegular(RegPAttr perm);
  void printGallery(GalleryAttr perm);
  void printSizes(ArrayRef<AffineExpr> sizes);
  void printLevels(ArrayRef<AffineExpr> sizes, ArrayRef<int64_t> ranks);
  void printSize(AffineExpr size, bool atom = false);
  void printSum(AffineExpr size);

  raw_ostream &os;
  ArrayRef<SymbolAttr> symbols;
};

} // namespace

void LayoutPrinter::printSymbols() {
  if (symbols.empty())
    return;
  os << '[';
  llvm::interleaveComma(symbols, os, [&](SymbolAttr symbol) {
    os << symbol.getName().getValue();
    if (symbol.getMin() != 1)
      os << " min " << symbol.getMin();
    if (symbol.getMax())
      os << " max " << symbol.getMax();
    if (symbol.getMultipleOf() != 1)
      os << " multiple_of " << symbol.getMultipleOf();
  });
  os << "]: ";
}

void LayoutPrinter::printView(Attribute view) {
  llvm::TypeSwitch<Attribute>(view)
      .Case([&](GroupByAttr group) { printGroup(group); })
      .Case([&](PaddedAttr padded) {
        os << "Padded(";
        printView(padded.getInner());
        os << ", ";
        printSizes(padded.getSizes());
        os << ')';
      })
      .Case([&](TiledAttr tiled) {
        printView(tiled.getInner());
        os << " tile_by";
        unsigned rank = getViewSizes(tiled.getInner()).size();
        SmallVector<int64_t> ranks(tiled.getSizes().size() / rank, rank);
        printLevels(tiled.getSizes(), ranks);
      })
      .Case([&](StridedAttr strided) {
        os << "Strided(";
        printSizes(strided.getSizes());
        os << ", ";
        printSizes(strided.getStrides());
        os << ')';
      });
}

/// Whether the last reordering of a view is that of a TileBy of its levels.
static bool endsInTiling(GroupByAttr group) {
  ArrayRef<int64_t> ranks = group.getRanks();
  if (group.getOrders().empty() || ranks.size() < 2 || !llvm::all_equal(ranks))
    return false;
  ArrayRef<Attribute> perms = group.getOrders().back().getPerms();
  auto box = dyn_cast<RegPAttr>(perms.front());
  return perms.size() == 1 && box && box.getSizes() == group.getSizes() &&
         box.getSigma() ==
             ArrayRef<int64_t>(getTileSigma(ranks.front(), ranks.size()));
}

void LayoutPrinter::printGroup(GroupByAttr group) {
  ArrayRef<OrderByAttr> orders = group.getOrders();
  if (orders.size() == 1 && group.getRanks().size() == 1 &&
      orders.front().getPerms().size() == 1) {
    Attribute perm = orders.front().getPerms().front();
    if (getPermSizes(perm) == group.getSizes())
      return printPerm(perm);
  }
  bool tiling = endsInTiling(group);
  for (OrderByAttr order : tiling ? orders.drop_back() : orders) {
    printOrder(order);
    os << ' ';
  }
  os << (tiling ? "TileBy" : "GroupBy");
  printLevels(group.getSizes(), group.getRanks());
}

void LayoutPrinter::printOrder(OrderByAttr order) {
  os << "OrderBy(";
  llvm::interleaveComma(order.getPerms(), os,
                        [&](Attribute perm) { printPerm(perm); });
  os << ')';
}

void LayoutPrinter::printPerm(Attribute perm) {
  llvm::TypeSwitch<Attribute>(perm)
      .Case([&](RegPAttr regular) { printRegular(regular); })
      .Case([&](GenPAttr general) {
        os << "GenP(";
        printSizes(general.getSizes());
        os << ", " << general.getSymbol() << ')';
      })
      .Case([&](GalleryAttr gallery) { printGallery(gallery); })
      .Case([&](TableAttr table) {
        os << "gallery.table(";
        printSizes(table.getSizes());
        os << ", [";
        llvm::interleaveComma(table.getPositions().asArrayRef(), os);
        os << ']';
        if (table.getName())
          os << ", name=" << table.getName();
        os << ')';
      });
}

void LayoutPrinter::printRegular(RegPAttr perm) {
  int64_t rank = perm.getSigma().size();
  bool row = true, col = true;
  for (auto [k, axis] : llvm::enumerate(perm.getSigma())) {
    row &= axis == int64_t(k) + 1;
    col &= axis == rank - int64_t(k);
  }
  auto print = [&](AffineExpr size) { printSize(size); };
  if (row || col) {
    os << (row ? "Row(" : "Col(");
    llvm::interleaveComma(perm.getSizes(), os, print);
    os << ')';
    return;
  }
  os << "RegP(";
  printSizes(perm.getSizes());
  os << ", [";
  llvm::interleaveComma(perm.getSigma(), os);
  os << "])";
}

void LayoutPrinter::printGallery(GalleryAttr perm) {
  ArrayRef<AffineExpr> sizes = perm.getSizes();
  ArrayRef<int64_t> options = perm.getOptions();
  auto print = [&](StringRef name, unsigned numSizes) {
    os << name << '(';
    llvm::interleaveComma(sizes.take_front(numSizes), os,
                          [&](AffineExpr size) { printSize(size); });
  };
  switch (perm.getKind()) {
  case GalleryKind::AntiDiagonal:
    print("gallery.antidiagonal", 1);
    break;
  case GalleryKind::Hilbert:
    print("gallery.hilbert", 1);
    break;
  case GalleryKind::Morton:
    print("gallery.morton", sizes[0] == sizes[1] ? 1 : 2);
    break;
  case GalleryKind::Reverse:
    print("gallery.reverse", sizes.size());
    break;
  case GalleryKind::BlockCyclic:
    print("gallery.block_cyclic", 1);
    os << ", " << options[0] << ", " << options[1];
    break;
  case GalleryKind::XorSwizzle:
    print("gallery.xor_swizzle", 2);
    if (options[0] != 1)
      os << ", vec=" << options[0];
    if (options[1] != 1)
      os << ", per_phase=" << options[1];
    if (options[2])
      os << ", max_phase=" << options[2];
    break;
  case GalleryKind::Grouped:
    print("grids.grouped", 2);
    os << ", rows=" << options[0];
    break;
  case GalleryKind::Columns:
    print("grids.columns", 2);
    os << ", width=" << options[0];
    break;
  }
  os << ')';
}

void LayoutPrinter::printSizes(ArrayRef<AffineExpr> sizes) {
  os << '[';
  llvm::interleaveComma(sizes, os, [&](AffineExpr size) { printSize(size); });
  os << ']';
}

void LayoutPrinter::printLevels(ArrayRef<AffineExpr> sizes,
                                ArrayRef<int64_t> ranks) {
  os << '(';
  llvm::interleaveComma(ranks, os, [&](int64_t rank) {
    printSizes(sizes.take_front(rank));
    sizes = sizes.drop_front(rank);
  });
  os << ')';
}

/// Products associate to the left as they are parsed, so a right operand that
/// is not a name or an integer is in parentheses.
void LayoutPrinter::printSize(AffineExpr size, bool atom) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(size)) {
    os << symbols[symbol.getPosition()].getName().getValue();
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(size);
  bool sum = size.getKind() == AffineExprKind::Add;
  if (atom)
    os << '(';
  if (sum) {
    printSum(size);
  } else {
    printSize(binary.getLHS(),
              binary.getLHS().getKind() == AffineExprKind::Add);
    os << (size.getKind() == AffineExprKind::Mul        ? " * "
           : size.getKind() == AffineExprKind::FloorDiv ? " floordiv "
           : size.getKind() == AffineExprKind::CeilDiv  ? " ceildiv "
                                                        : " mod ");
    printSize(binary.getRHS(), isa<AffineBinaryOpExpr>(binary.getRHS()));
  }
  if (atom)
    os << ')';
}

void LayoutPrinter::printSum(AffineExpr size) {
  auto binary = cast<AffineBinaryOpExpr>(size);
  AffineExpr right = binary.getRHS();
  printSize(binary.getLHS());
  auto constant = dyn_cast<AffineConstantExpr>(right);
  if (constant && constant.getValue() < 0) {
    os << " - " << -constant.getValue();
    return;
  }
  if (auto product = dyn_cast<AffineBinaryOpExpr>(right);
      product && right.getKind() == AffineExprKind::Mul) {
    auto factor = dyn_cast<AffineConstantExpr>(product.getRHS());
    if (factor && factor.getValue() < 0) {
      os << " - ";
      AffineExpr positive = product.getLHS() * -factor.getValue();
      printSize(positive, positive.getKind() == AffineExprKind::Add);
      return;
    }
  }
  os << " + ";
  printSize(right, right.getKind() == AffineExprKind::Add);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << '<';
  LayoutPrinter text(printer.getStream(), getSymbols());
  text.printSymbols();
  text.printView(getView());
  printer << '>';
}
