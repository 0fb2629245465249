// Generates tokens greedily with a language model that mg-compile made a library of; no Python runs.
//
//   generate [--tokens N] [--no-graph] --weights FILE [--weights FILE ...] TOKEN [TOKEN ...]
//
// The numbers of the prompt's tokens go through the model one after the other, and then the most likely next token N
// times. Printed are the numbers of the new tokens, and on stderr how many there were a second.
#include <decode.h>

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void check(cudaError_t status, char const *what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

void check(int code) {
  if (code == MUGRAPH_SUCCESS) return;
  std::fprintf(stderr, "%s\n", decode_error());
  std::exit(1);
}

struct Options {
  std::vector<char const *> weights;
  std::vector<std::int64_t> prompt;
  long tokens = 16;
  bool graph = true;
};

Options options_of(int count, char **arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    bool const has_next = i + 1 < count;
    if (std::strcmp(arguments[i], "--weights") == 0 && has_next) {
      options.weights.push_back(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--tokens") == 0 && has_next) {
      options.tokens = std::atol(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--no-graph") == 0) {
      options.graph = false;
    } else {
      options.prompt.push_back(std::atoll(arguments[i]));
    }
  }
  if (options.weights.empty() || options.prompt.empty() || options.tokens < 1) {
    std::fprintf(stderr, "usage: generate [--tokens N] [--no-graph] --weights FILE [...] TOKEN [TOKEN ...]\n");
    std::exit(1);
  }
  return options;
}

void *allocate(std::size_t bytes) {
  void *pointer = nullptr;
  check(cudaMalloc(&pointer, bytes), "allocating");
  return pointer;
}

// One step of the model: from `token` to the next one, which takes its place.
struct Step {
  decode_weights *weights = nullptr;
  decode_state *state = nullptr;
  void *token = nullptr;
  void *next = nullptr;
  void *workspace = nullptr;
  std::size_t workspace_bytes = decode_workspace_bytes();
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;

  void launch() {
    check(decode_call(weights, state, token, next, workspace, workspace_bytes, stream));
    check(cudaMemcpyAsync(token, next, sizeof(std::int64_t), cudaMemcpyDeviceToDevice, stream), "copying a token");
  }

  void capture() {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step");
    launch();
    check(cudaStreamEndCapture(stream, &captured), "capturing a step");
    check(cudaGraphInstantiate(&graph, captured, 0), "making a graph of a step");
    check(cudaGraphDestroy(captured), "making a graph of a step");
  }

  // Runs a step and returns the token behind it.
  std::int64_t run() {
    if (graph != nullptr) {
      check(cudaGraphLaunch(graph, stream), "running a step");
    } else {
      launch();
    }
    std::int64_t result = 0;
    check(cudaMemcpyAsync(&result, token, sizeof result, cudaMemcpyDeviceToHost, stream), "reading a token");
    check(cudaStreamSynchronize(stream), "running a step");
    return result;
  }
};

}  // namespace

int main(int count, char **arguments) {
  Options const options = options_of(count, arguments);
  check(decode_check_device());
  Step step;
  check(decode_load_weights(options.weights.data(), options.weights.size(), &step.weights));
  check(decode_new_state(step.weights, &step.state));
  step.token = allocate(sizeof(std::int64_t));
  step.next = allocate(sizeof(std::int64_t));
  if (step.workspace_bytes > 0) step.workspace = allocate(step.workspace_bytes);
  check(cudaStreamCreateWithFlags(&step.stream, cudaStreamNonBlocking), "making a stream");
  if (options.graph) step.capture();

  std::int64_t token = 0;
  for (std::int64_t const given : options.prompt) {
    check(cudaMemcpyAsync(step.token, &given, sizeof given, cudaMemcpyHostToDevice, step.stream), "writing a token");
    token = step.run();
  }
  auto const start = std::chrono::steady_clock::now();
  for (long i = 0; i < options.tokens; ++i) {
    std::printf("%s%lld", i == 0 ? "" : " ", static_cast<long long>(token));
    if (i + 1 < options.tokens) token = step.run();
  }
  std::printf("\n");
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - start;
  if (options.tokens > 1) std::fprintf(stderr, "%.1f tokens/s\n", (options.tokens - 1) / seconds.count());
  decode_free_state(step.state);
  decode_free_weights(step.weights);
  return 0;
}
