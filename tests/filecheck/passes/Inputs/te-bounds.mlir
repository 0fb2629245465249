func.func @f(%A: !te.buffer<64xf32>, %x: !te.buffer<64xf32>) {
  te.par %i = 64 {
    %a = te.view %A[%i - 1] : !te.buffer<64xf32>
    te.bind %a, %x[%i] : !te.buffer<64xf32>
  }
  func.return
}
