// What runtime/launcher.cu calls beyond the calls in emulator.h, so that Python can load emulated kernels.
// There is one stream, on which everything happens at once; timing, which needs CUDA graphs, is refused.
#pragma once

#include "emulator.h"

extern "C" {
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static int only_stream = 0;
  *stream = reinterpret_cast<cudaStream_t>(&only_stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMemset(void* target, int byte, std::size_t bytes) {
  std::memset(target, byte, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* target, int byte, std::size_t bytes, cudaStream_t) {
  return cudaMemset(target, byte, bytes);
}
inline cudaError_t cudaMemcpyAsync(void* target, void const* source, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  return cudaMemcpy(target, source, bytes, kind);
}
inline cudaError_t cudaMemcpy2DAsync(void* target, std::size_t target_pitch, void const* source,
                                     std::size_t source_pitch, std::size_t bytes, std::size_t rows,
                                     cudaMemcpyKind kind, cudaStream_t) {
  for (std::size_t row = 0; row < rows; ++row) {
    cudaMemcpy(static_cast<char*>(target) + row * target_pitch,
               static_cast<char const*>(source) + row * source_pitch, bytes, kind);
  }
  return cudaSuccess;
}
// The current device has the capability that the generated code is compiled for, 9.0.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaErrorNotSupported; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaErrorNotSupported; }
}
