// RUN: mg-translate --import-mirage %S/Inputs/two_graphs.json --index 1 | filecheck %s
// RUN: mg-translate --import-mirage - --index 0 < %S/Inputs/two_graphs.json | filecheck %s --check-prefix STDIN
// RUN: mg-translate --import-mirage %S/Inputs/two_graphs.json --index 0 | mg-opt | filecheck %s

// CHECK:      func.func @two_graphs(
// CHECK-SAME:     %dtensor10000003: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
// CHECK-SAME:   -> tensor<16x32xf16, #cute.layout<(16,32):(32,1)>> {
// CHECK:        kn.customized %dtensor10000003, %dtensor10000006 grid [4, 1, 1] block [128, 1, 1] forloop 2 {
// CHECK:          tb.input {{.*}} imap [-1, -1, -1] fordim 1 :
// CHECK:          tb.input {{.*}} imap [1, -1, -1] fordim 0 :
// CHECK:          tb.matmul
// CHECK:          tb.forloop_accum none
// CHECK:          tb.forloop_accum rms
// CHECK:          tb.div
// CHECK:          tb.output {{.*}} omap [1, -1, -1] :
// STDIN: func.func @mugraph(

// The second and third generations use the same numbers the other way round.
// RUN: mg-translate --import-mirage %S/Inputs/third_generation.json 2>&1 | filecheck %s --check-prefix THIRD
// RUN: mg-translate --import-mirage %S/Inputs/third_generation.json --generation 2 2>&1 | filecheck %s --check-prefix SECOND
// THIRD:  mg-translate: note: the data types 940 fit generations 2 and 3 of the format; taking 3
// THIRD:  tensor<4x8xf16,
// SECOND-NOT: note
// SECOND: tensor<4x8xbf16,

// Every error is one message, and leaves no file.
// RUN: rm -rf %t && mkdir %t
// RUN: not mg-translate --import-mirage %S/Inputs/two_graphs.json -o %t/out.mlir 2>&1 | filecheck %s --check-prefix INDEX
// INDEX: mg-translate: error: {{.*}}two_graphs.json holds 2 graphs; say which one with --index 0 to 1.
// INDEX-NOT: {{.}}
// RUN: head -c 1000 %S/Inputs/two_graphs.json > %t/cut.json
// RUN: not mg-translate --import-mirage %t/cut.json -o %t/out.mlir 2>&1 | filecheck %s --check-prefix CUT
// CUT: mg-translate: error: {{.*}}cut.json:{{[0-9]+}}:{{[0-9]+}}: not valid JSON: {{.*}} The file seems to be truncated.
// CUT-NOT: {{.}}
// RUN: not mg-translate --import-mirage %t/missing.json -o %t/out.mlir 2>&1 | filecheck %s --check-prefix MISSING
// MISSING: mg-translate: error: {{.*}}missing.json: No such file or directory
// MISSING-NOT: {{.}}
// RUN: not mg-translate 2>&1 | filecheck %s --check-prefix NOTHING
// NOTHING: mg-translate: error: nothing to translate: give --import-mirage FILE or --export-mirage FILE.
// RUN: not mg-translate --generation 4 2>&1 | filecheck %s --check-prefix GENERATION
// GENERATION: mg-translate: error: argument --generation: invalid choice: {{.*}}; mg-translate --help explains the arguments.
// RUN: ls %t | filecheck %s --check-prefix FILES
// FILES: {{^}}cut.json{{$}}
// FILES-NOT: {{.}}
// RUN: mg-translate --import-mirage %S/Inputs/two_graphs.json --index 1 -o %t/out.mlir
// RUN: filecheck %s --input-file %t/out.mlir
