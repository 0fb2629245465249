func.func @f(%A: !te.buffer<64xf32>, %s: !te.buffer<1xf32>) {
  te.par %i = 8 {
    te.par %j = 8 {
      %a = te.view %A[%i + %j * 8] : !te.buffer<64xf32>
      te.bind %a, %A[%i + %j * 8] : !te.buffer<64xf32>
      te.red add %a, %s[0] : !te.buffer<1xf32>
    }
  }
  func.return
}
