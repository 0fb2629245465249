//! Runs the compiled µGraph rms_norm(x) · w on random inputs and checks it against double precision.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::process::exit;
use std::ptr::null_mut;

// The header that mg-compile wrote, by hand: a binding crate is not needed for three functions.
extern "C" {
    fn rmsnorm_linear_workspace_bytes() -> usize;
    fn rmsnorm_linear_run(
        x: *const c_void,
        w: *const c_void,
        o: *mut c_void,
        workspace: *mut c_void,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> c_int;
    fn rmsnorm_linear_error() -> *const c_char;
}

// Of CUDA's runtime.
extern "C" {
    fn cudaGetDeviceCount(count: *mut c_int) -> c_int;
    fn cudaMalloc(pointer: *mut *mut c_void, bytes: usize) -> c_int;
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> c_int;
    fn cudaMemset(pointer: *mut c_void, value: c_int, bytes: usize) -> c_int;
    fn cudaDeviceSynchronize() -> c_int;
}
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;

const ROWS: usize = 16;
const INNER: usize = 4096;
const COLUMNS: usize = 6144;
const TOLERANCE: f64 = 2e-3;

/// Ends the program with a sentence where a call of CUDA failed.
fn check(status: c_int, what: &str) {
    if status != 0 {
        eprintln!("{what}: CUDA error {status}");
        exit(2);
    }
}

/// The value of a half-precision number.
fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// Half-precision numbers of both signs, spread over some powers of two around `exponent`.
fn random_tensor(count: usize, exponent: u16, seed: u64) -> Vec<u16> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = (state >> 40) as u16;
            let sign = random & 0x8000;
            let power = exponent + 15 - (random >> 10 & 3);
            sign | power << 10 | random & 0x3ff
        })
        .collect()
}

fn to_device(values: &[u16]) -> *mut c_void {
    let bytes = std::mem::size_of_val(values);
    let mut pointer = null_mut();
    // SAFETY: the pointers are to `bytes` bytes each, on the GPU and in `values`.
    unsafe {
        check(cudaMalloc(&mut pointer, bytes), "allocating");
        check(cudaMemcpy(pointer, values.as_ptr().cast(), bytes, HOST_TO_DEVICE), "copying");
    }
    pointer
}

fn reference(x: &[u16], w: &[u16]) -> Vec<f64> {
    let w: Vec<f64> = w.iter().map(|&bits| half_to_f64(bits)).collect();
    let mut result = vec![0.0; ROWS * COLUMNS];
    for row in 0..ROWS {
        let line = &mut result[row * COLUMNS..][..COLUMNS];
        let mut squares = 0.0;
        for k in 0..INNER {
            let value = half_to_f64(x[row * INNER + k]);
            squares += value * value;
            for (sum, weight) in line.iter_mut().zip(&w[k * COLUMNS..][..COLUMNS]) {
                *sum += value * weight;
            }
        }
        let norm = (squares / INNER as f64).sqrt();
        line.iter_mut().for_each(|sum| *sum /= norm);
    }
    result
}

fn main() {
    let mut devices = 0;
    // SAFETY: writes one integer.
    if unsafe { cudaGetDeviceCount(&mut devices) } != 0 || devices == 0 {
        eprintln!("no NVIDIA GPU on this machine");
        exit(2);
    }
    let x = random_tensor(ROWS * INNER, 1, 1);
    let w = random_tensor(INNER * COLUMNS, 0, 2).iter().map(|bits| bits - (5 << 10)).collect::<Vec<_>>();
    let mut result = vec![0u16; ROWS * COLUMNS];
    let (device_x, device_w, device_result) = (to_device(&x), to_device(&w), to_device(&result));

    // SAFETY: every pointer is to device memory of the size that the header documents.
    unsafe {
        // Starts as NaN, so that an element that no thread writes cannot pass.
        check(cudaMemset(device_result, 0xff, 2 * result.len()), "filling");
        let bytes = rmsnorm_linear_workspace_bytes();
        let mut workspace = null_mut();
        if bytes > 0 {
            check(cudaMalloc(&mut workspace, bytes), "allocating");
        }
        check(cudaDeviceSynchronize(), "preparing");
        if rmsnorm_linear_run(device_x, device_w, device_result, workspace, bytes, null_mut()) != 0 {
            eprintln!("{}", CStr::from_ptr(rmsnorm_linear_error()).to_string_lossy());
            exit(1);
        }
        check(cudaDeviceSynchronize(), "running");
        let bytes = 2 * result.len();
        check(cudaMemcpy(result.as_mut_ptr().cast(), device_result, bytes, DEVICE_TO_HOST), "copying");
    }

    let expected = reference(&x, &w);
    let largest = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let within = result.iter().zip(&expected);
    // A NaN is larger than any error.
    let error = within.fold(0.0, |most: f64, (&bits, value)| {
        let difference = (half_to_f64(bits) - value).abs();
        if difference <= most { most } else { difference }
    });
    println!("largest error {error:.2e} of {largest:.2}");
    exit(if error <= TOLERANCE * largest { 0 } else { 1 });
}
