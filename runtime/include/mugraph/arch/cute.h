// The parts of CuTe that the runtime uses, and no more: each further header costs compile time in every kernel file.
//
// CuTe leaves parameters unused where a target lacks an instruction, on the host always; strict host compilers say so.
#pragma once

#if defined(__GNUC__) && !defined(__CUDACC_RTC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

#include <cute/layout.hpp>
#include <cute/swizzle_layout.hpp>
#include <cute/numeric/numeric_types.hpp>
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/arch/mma_sm89.hpp>

#if defined(__GNUC__) && !defined(__CUDACC_RTC__)
#pragma GCC diagnostic pop
#endif
