// CUDA's runtime as far as launcher.cu and c_interface.h use it, on host memory: for tests where there is no GPU.
// A "graph" is the list of calls that a capture saw; an event is a call counter. The device has the compute capability
// that the environment variable HOST_CUDA_DEVICE says, such as 9.0; without it there is none.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define CUDART_VERSION 13000

typedef int cudaError_t;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorNoDevice = 100;
constexpr cudaError_t cudaErrorLaunchFailure = 719;
constexpr unsigned cudaStreamNonBlocking = 1;
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };

struct HostGraph {
  std::vector<std::function<void()>> calls;
};
struct CUstream_st {
  HostGraph *capture = nullptr;
};
struct HostEvent {
  long calls = 0;
};
typedef CUstream_st *cudaStream_t;
typedef HostGraph *cudaGraph_t;
typedef HostGraph *cudaGraphExec_t;
typedef HostEvent *cudaEvent_t;

inline cudaError_t &host_error() {
  static cudaError_t error = cudaSuccess;
  return error;
}
inline long &host_calls() {
  static long calls = 0;
  return calls;
}

// What a generated file calls in place of a kernel launch.
inline void host_launch(cudaStream_t stream, std::function<void()> call) {
  if (stream->capture != nullptr) {
    stream->capture->calls.push_back(call);
  } else {
    call();
    ++host_calls();
  }
}

inline char const *cudaGetErrorName(cudaError_t) { return "cudaErrorLaunchFailure"; }
inline char const *cudaGetErrorString(cudaError_t) { return "unspecified launch failure"; }
inline cudaError_t cudaGetLastError() {
  cudaError_t const error = host_error();
  host_error() = cudaSuccess;
  return error;
}
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : 101; }
inline cudaError_t cudaGetDevice(int *device) {
  return *device = 0, std::getenv("HOST_CUDA_DEVICE") == nullptr ? cudaErrorNoDevice : cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  int capability[2];
  std::sscanf(std::getenv("HOST_CUDA_DEVICE"), "%d.%d", capability, capability + 1);
  return *value = capability[attribute], cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  return *stream = new CUstream_st, cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMalloc(void **pointer, std::size_t bytes) {
  return *pointer = std::malloc(bytes), cudaSuccess;
}
inline cudaError_t cudaFree(void *pointer) { return std::free(pointer), cudaSuccess; }
inline cudaError_t cudaMemcpy(void *to, void const *from, std::size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemset(void *to, int byte, std::size_t bytes) {
  return std::memset(to, byte, bytes), cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream->capture = new HostGraph, cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  *graph = stream->capture;
  stream->capture = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, int) {
  return *executable = new HostGraph(*graph), cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (auto const &call : executable->calls) {
    call();
    ++host_calls();
  }
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return delete executable, cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = new HostEvent, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return event->calls = host_calls(), cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
// A call takes 3 microseconds.
inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return *milliseconds = 0.003f * (stop->calls - start->calls), cudaSuccess;
}
