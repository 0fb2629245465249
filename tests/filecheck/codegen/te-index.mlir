// RUN: mg-opt %s -t cuda | filecheck %s

// One index is the element's number in row-major order, however the buffer lies.

// CHECK: mugraph::half_t* const t = reinterpret_cast<mugraph::half_t*>(smem + 0);
// CHECK: t[thread / 8 * 10 + thread % 8] = a;
// CHECK: mugraph::half_t const b = t[thread % 8 * 10 + thread / 8];

func.func @transpose(%x: !te.buffer<64xf16>, %y: !te.buffer<64xf16>) attributes {kn.workspace_bytes = 0 : i64} {
  te.kernel "transpose" %block = 1 smem 160 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<8x8xf16, (8,8):(10,1), shared>
    te.threads %thread = 64 {
      te.step "write" {
        %a = te.view %x[%thread] : !te.buffer<64xf16>
        te.bind %a, %t[%thread] : !te.buffer<8x8xf16, (8,8):(10,1), shared>
      }
      te.barrier block
      te.step "read" {
        %b = te.view %t[%thread mod 8, %thread floordiv 8] : !te.buffer<8x8xf16, (8,8):(10,1), shared>
        te.bind %b, %y[%thread] : !te.buffer<64xf16>
      }
    }
  }
  func.return
}
