// The C interface around one generated file, for callers that have no C++: Python's ctypes first.
//
// Compiled with -DMUGRAPH_GENERATED="…", the generated file, which defines _init and
// _execute_mugraph.  Every function returns 0, or an error code after which mugraph_last_error()
// says what went wrong.  All work is on one stream of the current device.

#include MUGRAPH_GENERATED

#include <cuda_runtime.h>

#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace mugraph_launcher {

constexpr int kFailure = 1;

std::string last_error;
cudaStream_t stream = nullptr;

int fail(std::string message) {
  last_error = std::move(message);
  return kFailure;
}

// 0 for success; otherwise the runtime's name and sentence for the error, and what was being done.
int check(cudaError_t status, char const *what) {
  if (status == cudaSuccess) {
    return 0;
  }
  return fail(std::string(what) + ": " + cudaGetErrorName(status) + ", " +
              cudaGetErrorString(status));
}

// Calls the generated code once, on the stream; launch errors and exceptions become error codes.
int execute(void const *const *inputs, int input_count, void *const *outputs, int output_count,
            void *workspace) {
  try {
    _execute_mugraph(std::vector<void const *>(inputs, inputs + input_count),
                     std::vector<void *>(outputs, outputs + output_count), workspace, stream);
  } catch (std::exception const &error) {
    return fail(error.what());
  }
  return check(cudaGetLastError(), "launching the kernels");
}

// Copies and fills run on the default stream, with which ours does not synchronise by itself, and
// may still be under way when their call returns.
int wait_for_memory() { return check(cudaDeviceSynchronize(), "writing device memory"); }

#define MUGRAPH_RETURN_IF_FAILED(expression)                      \
  if (int const failure_code = (expression); failure_code != 0) { \
    return failure_code;                                          \
  }

// Inside the namespace still, so that names that the generated file uses from CuTe do not mix in.
extern "C" {

char const *mugraph_last_error() { return last_error.c_str(); }

// Picks the device, makes the stream and runs the generated _init.  Call once, before the others.
int mugraph_initialize(int device) {
  MUGRAPH_RETURN_IF_FAILED(check(cudaSetDevice(device), "choosing the GPU"));
  if (stream == nullptr) {
    MUGRAPH_RETURN_IF_FAILED(
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
    try {
      _init();
    } catch (std::exception const &error) {
      return fail(error.what());
    }
  }
  return 0;
}

int mugraph_allocate(void **pointer, std::size_t bytes) {
  return check(cudaMalloc(pointer, bytes), "allocating device memory");
}

int mugraph_free(void *pointer) { return check(cudaFree(pointer), "freeing device memory"); }

int mugraph_upload(void *device, void const *host, std::size_t bytes) {
  return check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice),
               "copying to the GPU");
}

int mugraph_download(void *host, void const *device, std::size_t bytes) {
  return check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost),
               "copying from the GPU");
}

int mugraph_copy_on_device(void *to, void const *from, std::size_t bytes) {
  return check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice),
               "copying on the GPU");
}

// Sets every byte; 0xFF makes every floating-point value a NaN.
int mugraph_fill(void *device, int byte, std::size_t bytes) {
  return check(cudaMemset(device, byte, bytes), "filling device memory");
}

// Runs the µGraph once and waits for it.
int mugraph_execute(void const *const *inputs, int input_count, void *const *outputs,
                    int output_count, void *workspace) {
  MUGRAPH_RETURN_IF_FAILED(wait_for_memory());
  MUGRAPH_RETURN_IF_FAILED(execute(inputs, input_count, outputs, output_count, workspace));
  return check(cudaStreamSynchronize(stream), "running the kernels");
}

// Times the µGraph: microseconds[s] is the time of one call in sample s.
//
// `inputs` and `outputs` hold `set_count` sets of pointers, one after another.  A CUDA graph of
// `call_count` calls goes through the sets in turn, so that a set's data has left the cache when it
// is used again, if the sets together are larger than it.  Each sample replays the graph
// `replay_count` times between two events.
int mugraph_time(void const *const *inputs, int input_count, void *const *outputs,
                 int output_count, int set_count, void *workspace, int call_count,
                 int replay_count, int sample_count, float *microseconds) {
  MUGRAPH_RETURN_IF_FAILED(wait_for_memory());
  // Outside the capture first: libraries allocate and kernels are loaded on their first call.
  MUGRAPH_RETURN_IF_FAILED(execute(inputs, input_count, outputs, output_count, workspace));
  MUGRAPH_RETURN_IF_FAILED(check(cudaStreamSynchronize(stream), "running the kernels"));

  MUGRAPH_RETURN_IF_FAILED(check(
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "starting a CUDA graph"));
  int code = 0;
  for (int call = 0; call < call_count && code == 0; ++call) {
    int const set = call % set_count;
    code = execute(inputs + set * input_count, input_count, outputs + set * output_count,
                   output_count, workspace);
  }
  cudaGraph_t graph = nullptr;
  cudaError_t const captured = cudaStreamEndCapture(stream, &graph);
  if (code == 0) code = check(captured, "capturing a CUDA graph");

  cudaGraphExec_t executable = nullptr;
  if (code == 0) {
    code = check(cudaGraphInstantiate(&executable, graph, 0), "making a CUDA graph");
  }
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  if (code == 0) code = check(cudaEventCreate(&start), "making an event");
  if (code == 0) code = check(cudaEventCreate(&stop), "making an event");
  constexpr int kWarmUps = 2;
  for (int sample = -kWarmUps; sample < sample_count && code == 0; ++sample) {
    code = check(cudaEventRecord(start, stream), "recording an event");
    for (int replay = 0; replay < replay_count && code == 0; ++replay) {
      code = check(cudaGraphLaunch(executable, stream), "replaying a CUDA graph");
    }
    if (code == 0) code = check(cudaEventRecord(stop, stream), "recording an event");
    if (code == 0) code = check(cudaEventSynchronize(stop), "running the kernels");
    float milliseconds = 0.0f;
    if (code == 0) {
      code = check(cudaEventElapsedTime(&milliseconds, start, stop), "reading an event");
    }
    if (code == 0 && sample >= 0) {
      microseconds[sample] =
          1000.0f * milliseconds / (static_cast<float>(call_count) * replay_count);
    }
  }
  // The error to report is the first one, so these are not checked.
  if (start != nullptr) cudaEventDestroy(start);
  if (stop != nullptr) cudaEventDestroy(stop);
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return code;
}

}  // extern "C"

}  // namespace mugraph_launcher
