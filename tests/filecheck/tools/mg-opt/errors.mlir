// Every error is one message on stderr and exit code 1; nothing is printed on stdout.

// RUN: not mg-opt %t.missing.mlir 2>&1 | filecheck %s --check-prefix MISSING
// MISSING: mg-opt: error: {{.*}}.missing.mlir: No such file or directory
// MISSING-NOT: {{.}}

// RUN: not mg-opt %S 2>&1 | filecheck %s --check-prefix EXTENSION
// EXTENSION: mg-opt: error: {{.*}} is a folder, not a file.
// EXTENSION-NOT: {{.}}

// RUN: printf 'func.func @f() {\n  "test" oops\n}' > %t.broken.mlir
// RUN: not mg-opt %t.broken.mlir 2>&1 >/dev/null | filecheck %s --check-prefix PARSE
// PARSE:      mg-opt: {{.*}}.broken.mlir:2:4: error: there is no operator 'test'
// PARSE-NEXT:   "test" oops
// PARSE-NEXT: {{^ +\^\^\^\^$}}
// PARSE-NOT: {{.}}

// RUN: printf 'func.func @f(%%%%x: f16) {\n  func.return %%%%x : f16\n}' > %t.invalid.mlir
// RUN: not mg-opt %t.invalid.mlir 2>&1 >/dev/null | filecheck %s --check-prefix VERIFY
// VERIFY:      mg-opt: {{.*}}.invalid.mlir:2:3: error: Expected arguments to have the same types as the function output types
// VERIFY-NEXT:   in: "func.return"(%x) : (f16) -> ()
// VERIFY-NOT: {{.}}

// RUN: printf 'func.func @f() attributes {a = "no quote closes this, b = 1, and so on for a long line} {\n}' > %t.quote.mlir
// RUN: not mg-opt %t.quote.mlir 2>&1 >/dev/null | filecheck %s --check-prefix QUOTE
// RUN: not mg-run %t.quote.mlir 2>&1 >/dev/null | filecheck %s --check-prefix QUOTE
// QUOTE: {{.*}}.quote.mlir:1:32: error: this string does not end on its line, or has an escape that is none of \n, \t, \", \\ and two hexadecimal digits
// QUOTE-NEXT: func.func @f() attributes {a = "no quote closes this

// RUN: not mg-opt --canonicalise %s 2>&1 | filecheck %s --check-prefix NAME
// NAME: mg-opt: error: unknown pass or option '--canonicalise' (is '--canonicalize' meant?); mg-opt --help lists them.

// RUN: not mg-opt -p resolve-layuot %s 2>&1 | filecheck %s --check-prefix PIPELINE
// PIPELINE: mg-opt: error: unknown pass 'resolve-layuot' (is 'resolve-layout' meant?); mg-opt --help lists them.

// RUN: not mg-opt --canonicalize="no-such-option=1" %s 2>&1 | filecheck %s --check-prefix OPTION
// OPTION: mg-opt: error: --canonicalize has no option 'no-such-option'. Its options: none.

// RUN: not mg-opt --canonicalize="=1" %s 2>&1 | filecheck %s --check-prefix SYNTAX
// SYNTAX: mg-opt: error: --canonicalize: cannot read the option '=1'; options are written --canonicalize="name=value other-name=value".

// RUN: not mg-opt -p 'cse{' %s 2>&1 | filecheck %s --check-prefix BRACE
// BRACE: mg-opt: error: Error parsing pass pipeline specification:
// BRACE-NOT: Traceback

// RUN: printf '\377\376' > %t.binary.mlir
// RUN: not mg-opt %t.binary.mlir 2>&1 | filecheck %s --check-prefix BINARY
// BINARY: mg-opt: error: {{.*}}.binary.mlir is not UTF-8 text:
// BINARY-NOT: Traceback

// RUN: not mg-opt --transpile="arsch=sm_80" %s 2>&1 | filecheck %s --check-prefix OPTIONS
// OPTIONS: mg-opt: error: --transpile has no option 'arsch' (is 'arch' meant?). Its options: arch, check-hazards.
// RUN: not mg-opt --transpile=arch %s 2>&1 | filecheck %s --check-prefix VALUE
// VALUE: mg-opt: error: --transpile: the option 'arch' needs a value: write arch=..., a word.
// RUN: not mg-opt --plan=stages %s 2>&1 | filecheck %s --check-prefix NUMBER
// NUMBER: mg-opt: error: --plan: the option 'stages' needs a value: write stages=..., an integer, perhaps several
// RUN: printf '' > %t.empty.mlir
// RUN: not mg-opt %t.empty.mlir 2>&1 | filecheck %s --check-prefix EMPTY
// EMPTY: mg-opt: {{.*}}.empty.mlir:1:1: error: the input is empty
// RUN: not mg-opt --resolve-layout="arch=1" %s 2>&1 | filecheck %s --check-prefix TYPE
// TYPE: mg-opt: error: --resolve-layout: the option 'arch' is '1'; expected a word.
// RUN: not mg-opt -t 'cuda{x=1}' %s 2>&1 | filecheck %s --check-prefix TARGET-OPTION
// TARGET-OPTION: mg-opt: error: -t cuda has no option 'x'.
// RUN: not mg-opt --transpile="arch=sm_80 arch=sm_90a" %s 2>&1 | filecheck %s --check-prefix TWICE
// TWICE: mg-opt: error: --transpile: the option 'arch' is written twice; leave one out.
// RUN: echo 'builtin.module {}' | not mg-opt --plan 2>&1 | filecheck %s --check-prefix NOTHING
// NOTHING: mg-opt: error: --plan: the module has no function with a body
