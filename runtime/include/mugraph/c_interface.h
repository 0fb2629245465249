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

// The code compiled for one architecture. `is_exact`: runs on that capability only, not on later minor ones.
struct Variant {
  int major;
  int minor;
  bool is_exact;
  char const* name;
  Execute execute;

  constexpr bool runs_on(int device_major, int device_minor) const {
    return major == device_major && (is_exact ? minor == device_minor : minor <= device_minor);
  }
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

// The variant for the current device, the latest one where several run on it; null where none does.
template <std::size_t kCount>
Variant const* choose(Variant const (&variants)[kCount], int device_capability) {
  Variant const* chosen = nullptr;
  for (Variant const& variant : variants) {
    const bool runs = variant.runs_on(device_capability / 1000, device_capability % 1000);
    if (runs && (chosen == nullptr || variant.minor > chosen->minor || variant.is_exact)) chosen = &variant;
  }
  return chosen;
}

// Checks the arguments and launches; returns a status code of the generated header.
template <std::size_t kInputs, std::size_t kOutputs, std::size_t kVariants>
int run(std::array<Input, kInputs> const& inputs, std::array<Output, kOutputs> const& outputs,
        Workspace const& workspace, Variant const (&variants)[kVariants], cudaStream_t stream) noexcept {
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
  if (workspace.needed > 0) {
    if (int const code = check_pointer("workspace", workspace.pointer, workspace.alignment); code != 0) return code;
    if (workspace.bytes < workspace.needed) {
      return fail(MUGRAPH_WORKSPACE_TOO_SMALL, "workspace has %zu bytes; %zu are needed.", workspace.bytes,
                  workspace.needed);
    }
  }
  int device_capability = 0;
  if (cudaError_t const status = capability(&device_capability); status != cudaSuccess) {
    return fail(MUGRAPH_CUDA_ERROR, "asking for the current device failed: %s (%s).", cudaGetErrorString(status),
                cudaGetErrorName(status));
  }
  Variant const* variant = choose(variants, device_capability);
  if (variant == nullptr) {
    return fail(MUGRAPH_UNSUPPORTED_DEVICE,
                "the current device has compute capability %d.%d; this was compiled for %s%s: compile for the "
                "device's architecture.",
                device_capability / 1000, device_capability % 1000, variants[0].name, kVariants > 1 ? " and others" : "");
  }
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
