//! Links the static library that mg-compile wrote, and CUDA's runtime.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=COMPILED_MUGRAPH");
    println!("cargo:rerun-if-env-changed=CUDA_PATH");
    let compiled = env::var("COMPILED_MUGRAPH")
        .expect("set COMPILED_MUGRAPH to the folder that mg-compile -o wrote");
    let cuda = env::var("CUDA_PATH").unwrap_or_else(|_| "/usr/local/cuda".to_string());
    let compiled = PathBuf::from(compiled).canonicalize().expect("COMPILED_MUGRAPH is no folder");
    println!("cargo:rustc-link-search=native={}", compiled.join("lib").display());
    println!("cargo:rustc-link-search=native={cuda}/lib64");
    println!("cargo:rustc-link-lib=static=rmsnorm_linear");
    println!("cargo:rustc-link-lib=static=cudart_static");
    for library in ["stdc++", "dl", "rt", "pthread"] {
        println!("cargo:rustc-link-lib={library}");
    }
}
