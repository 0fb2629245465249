// Tables of rows in groups, and runs of rows that share memory.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.sort_groups %g : (tensor<100xi64>) -> (tensor<100xi32>, tensor<100xi32>, tensor<8xi32>)
// CHECK: kn.group_tiles %end size 16 : (tensor<8xi32>) -> (tensor<13xi32>, tensor<13xi32>, tensor<100xi32>, tensor<1xi32>)
// CHECK: kn.row_windows %x size 16 : tensor<100x64xf16> -> tensor<85x16x64xf16>
// CHECK: kn.invert_places %at : tensor<100xi32> -> tensor<13x16xi32>
// CUDA:  kn::SortGroups<100, 8, 1, 1, 1, 1>::run(mugraph::overlapping(stream), order, place, end, g);
// CUDA:  kn::GroupTiles<100, 8, 16, 13, 1, 1, 1, 1, 1>::run(mugraph::overlapping(stream), group, start, at, used, end);
// CUDA:  kn::InvertPlaces<100, 1, 13, 16, 16, 1>::run(mugraph::overlapping(stream), row, at);
// SAME:  proved equal
func.func @f(%x: tensor<100x64xf16>, %g: tensor<100xi64>) -> (tensor<100xi32>, tensor<100xi32>, tensor<13x16x64xf16>, tensor<13xi32>, tensor<13x16xi32>) {
  %order, %place, %end = kn.sort_groups %g : (tensor<100xi64>) -> (tensor<100xi32>, tensor<100xi32>, tensor<8xi32>)
  %group, %start, %at, %used = kn.group_tiles %end size 16 : (tensor<8xi32>) -> (tensor<13xi32>, tensor<13xi32>, tensor<100xi32>, tensor<1xi32>)
  %w = kn.row_windows %x size 16 : tensor<100x64xf16> -> tensor<85x16x64xf16>
  %t = kn.gather %w rows %start : (tensor<85x16x64xf16>, tensor<13xi32>) -> tensor<13x16x64xf16>
  %row = kn.invert_places %at : tensor<100xi32> -> tensor<13x16xi32>
  func.return %order, %place, %t, %group, %row : tensor<100xi32>, tensor<100xi32>, tensor<13x16x64xf16>, tensor<13xi32>, tensor<13x16xi32>
}
