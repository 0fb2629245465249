// What does not fit into memory is said in a sentence.
// RUN: not mg-run %s 2>&1 | filecheck %s
// CHECK: mg-run: error: there is not enough memory: Unable to allocate 909. PiB for an array with shape (16000000000000000, 16) and data type float32
func.func @f(%x: tensor<16000000000000000x16xf16>) -> tensor<16000000000000000x16xf16> {
  %a = kn.exp %x : tensor<16000000000000000x16xf16> -> tensor<16000000000000000x16xf16>
  func.return %a : tensor<16000000000000000x16xf16>
}
