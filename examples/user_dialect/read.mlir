// The pixel at a row and a column of an image of 1080 x 1920 pixels, stored in tiles of 8 x 8.

func.func @pixel(%pixels: memref<2073600xf32>, %row: index, %column: index) -> f32 {
  %x = image.read %pixels[%row, %column]
      stored as (#lego.layout<OrderBy(RegP([135, 8, 240, 8], [1, 3, 2, 4])) GroupBy([1080, 1920])>)
      : memref<2073600xf32>
  return %x : f32
}
