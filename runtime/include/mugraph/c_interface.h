// What stands between the C functions of an ahead-of-time compiled µGraph and its launches. Host only.
//
// Nothing throws across run(): every failure is a status code, and message() has a sentence on the last one of this
// thread. The codes are those of the generated header, which is included first.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>

namespace mugraph {
namespace c_interface {

using Execute = void (*)(void const* const*, void* const*, void*, cudaStream_t);

// The code compiled for one architecture. `is_exact`: runs on that capability only; other code is there as PTX too,
// which the driver compiles for newer devices.
struct Variant {
  int major;
  int minor;
  bool is_exact;
  Execute execute;

  constexpr int capability() const { return major * 1000 + minor; }
  constexpr bool runs_on(int device) const { return is_exact ? capability() == device : capability() <= device; }
};

struct Input {
  char const* name;
  void const* pointer;
  std::size_t alignment;
};

struct Output {
  char const* name;
  void* pointer;
  std::size_t alignment;
};

struct Workspace {
  void* pointer;
  std::size_t bytes;
  std::size_t needed;
  std::size_t alignment;
};

inline char* message_buffer() {
  thread_local char buffer[1024] = "";
  return buffer;
}

// A sentence on the last failure of this thread.
inline char const* message() { return message_buffer(); }

inline int fail(int code, char const* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message_buffer(), 1024, format, arguments);
  va_end(arguments);
  return code;
}

inline int check_pointer(char const* name, void const* pointer, std::size_t alignment) {
  if (pointer == nullptr) {
    return fail(MUGRAPH_NULL_POINTER, "%s is NULL; pass a pointer to device memory.", name);
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    return fail(MUGRAPH_MISALIGNED_POINTER, "%s is at %p, which is not a multiple of %zu bytes.", name, pointer,
                alignment);
  }
  return MUGRAPH_SUCCESS;
}

inline int check_workspace(Workspace const& workspace) {
  if (workspace.needed == 0) return MUGRAPH_SUCCESS;
  if (int const code = check_pointer("workspace", workspace.pointer, workspace.alignment); code != 0) return code;
  if (workspace.bytes < workspace.needed) {
    return fail(MUGRAPH_WORKSPACE_TOO_SMALL, "workspace has %zu bytes; %zu are needed.", workspace.bytes,
                workspace.needed);
  }
  return MUGRAPH_SUCCESS;
}

// The capability of the current device as major * 1000 + minor; asked of the runtime once a device.
inline cudaError_t capability(int* result) {
  constexpr int kRemembered = 64;
  static std::atomic<int> known[kRemembered];
  int device = 0;
  if (cudaError_t const status = cudaGetDevice(&device); status != cudaSuccess) return status;
  const bool is_remembered = device < kRemembered;
  *result = is_remembered ? known[device].load(std::memory_order_relaxed) : 0;
  if (*result != 0) return cudaSuccess;
  int major = 0;
  int minor = 0;
  cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (status != cudaSuccess) return status;
  *result = major * 1000 + minor;
  if (is_remembered) known[device].store(*result, std::memory_order_relaxed);
  return cudaSuccess;
}

// The variant for a device: that of its own architecture, else the newest that runs on it; null where none does.
template <std::size_t kCount>
Variant const* choose(Variant const (&variants)[kCount], int device) {
  Variant const* chosen = nullptr;
  for (Variant const& variant : variants) {
    if (!variant.runs_on(device)) continue;
    if (variant.is_exact) return &variant;
    if (chosen == nullptr || variant.capability() > chosen->capability()) chosen = &variant;
  }
  return chosen;
}

// The variant for the current device; `compiled_for` says in words what there is. Returns a status code.
template <std::size_t kCount>
int find_variant(Variant const (&variants)[kCount], char const* compiled_for, Variant const** found) {
  int device = 0;
  if (cudaError_t const status = capability(&device); status != cudaSuccess) {
    return fail(MUGRAPH_CUDA_ERROR,
                "asking for the current device failed: %s (%s); an NVIDIA GPU and a driver for CUDA %d are needed.",
                cudaGetErrorString(status), cudaGetErrorName(status), CUDART_VERSION / 1000);
  }
  *found = choose(variants, device);
  if (*found == nullptr) {
    return fail(MUGRAPH_UNSUPPORTED_DEVICE,
                "the current device has compute capability %d.%d; this was compiled for %s: compile for the device's "
                "architecture.",
                device / 1000, device % 1000, compiled_for);
  }
  return MUGRAPH_SUCCESS;
}

// Checks the arguments and launches; returns a status code of the generated header.
template <std::size_t kInputs, std::size_t kOutputs, std::size_t kVariants>
int run(std::array<Input, kInputs> const& inputs, std::array<Output, kOutputs> const& outputs,
        Workspace const& workspace, Variant const (&variants)[kVariants], char const* compiled_for,
        cudaStream_t stream) noexcept {
  std::array<void const*, kInputs> input_pointers{};
  std::array<void*, kOutputs> output_pointers{};
  std::size_t index = 0;
  for (Input const& input : inputs) {
    if (int const code = check_pointer(input.name, input.pointer, input.alignment); code != 0) return code;
    input_pointers[index++] = input.pointer;
  }
  index = 0;
  for (Output const& output : outputs) {
    if (int const code = check_pointer(output.name, output.pointer, output.alignment); code != 0) return code;
    output_pointers[index++] = output.pointer;
  }
  if (int const code = check_workspace(workspace); code != 0) return code;
  Variant const* variant = nullptr;
  if (int const code = find_variant(variants, compiled_for, &variant); code != 0) return code;
  try {
    variant->execute(input_pointers.data(), output_pointers.data(), workspace.pointer, stream);
  } catch (std::exception const& error) {
    return fail(MUGRAPH_CUDA_ERROR, "%s", error.what());
  } catch (...) {
    return fail(MUGRAPH_CUDA_ERROR, "an unknown exception was thrown while launching.");
  }
  return MUGRAPH_SUCCESS;
}

}  // namespace c_interface
}  // namespace mugraph
