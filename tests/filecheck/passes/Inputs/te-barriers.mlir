func.func @reverse(%x: !te.buffer<8x64xf32>, %y: !te.buffer<8x64xf32> {te.result}) {
  te.kernel "reverse" %block = 8 smem 256 {
    %v = te.new {te.offset = 0 : i64} : !te.buffer<64xf32, shared>
    te.threads %thread = 64 {
      te.step "par 64 i" {
        te.iteration [%thread] of [64]
        %0 = te.view %x[%block, %thread] : !te.buffer<8x64xf32>
        te.bind %0, %v[%thread] : !te.buffer<64xf32, shared>
      }
      te.barrier block
      te.step "par 64 j" {
        te.iteration [%thread] of [64]
        %1 = te.view %v[63 - %thread] : !te.buffer<64xf32, shared>
        te.bind %1, %y[%block, %thread] : !te.buffer<8x64xf32>
      }
    }
  }
  func.return
}
