func.func @f(%A: !te.buffer<64xf32>, %x: !te.buffer<1xf32>) {
  te.par %i = 8 {
    te.par %j = 8 {
      %a = te.view %x[0] : !te.buffer<1xf32>
      te.bind %a, %A[%i * 8 + %j mod 4] : !te.buffer<64xf32>
    }
  }
  func.return
}
