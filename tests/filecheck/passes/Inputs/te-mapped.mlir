func.func @copy(%a: !te.buffer<2x1000xf32>, %b: !te.buffer<2x1000xf32> {te.result}) {
  te.kernel "copy" %block = 8 {
    te.threads %thread = 256 {
      te.step "par 2 i, par 1000 j" {
        %i = te.apply %thread mod 2
        %j = te.apply %thread floordiv 2 + %block * 128
        te.if 999 - %j >= 0 {
          te.iteration [%i, %j] of [2, 1000] grid
          %0 = te.view %a[%i, %j] : !te.buffer<2x1000xf32>
          te.bind %0, %b[%i, %j] : !te.buffer<2x1000xf32>
        }
      }
    }
  }
  func.return
}
