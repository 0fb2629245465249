// Calls a compiled µGraph a few times, for the tools that watch a program: compute-sanitizer and Nsight Compute.
//
//     run_library LIBRARY FUNCTION CALLS INPUT... OUTPUT
//
// with each tensor as BYTES:TYPE:SCALE, where TYPE is f16, bf16 or f32. Inputs hold normal random numbers times SCALE, a
// million of them over and over; output and workspace are as cudaMalloc gives them, so that reads of what nothing wrote
// can be seen.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(std::string const& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(2);
}

void expect(cudaError_t code, char const* what) {
  if (code != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(code));
}

template <class Element>
std::vector<char> random_elements(std::size_t bytes, float scale) {
  constexpr std::size_t kDistinct = 1 << 20;
  std::mt19937 generator(20261121);
  std::normal_distribution<float> normal;
  std::vector<Element> some(kDistinct < bytes / sizeof(Element) ? kDistinct : bytes / sizeof(Element));
  for (Element& element : some) element = Element(normal(generator) * scale);
  std::vector<char> all(bytes);
  std::size_t const size = some.size() * sizeof(Element);
  for (std::size_t at = 0; at < bytes; at += size)
    std::memcpy(all.data() + at, some.data(), size < bytes - at ? size : bytes - at);
  return all;
}

std::vector<char> elements(std::string const& type, std::size_t bytes, float scale) {
  if (type == "f16") return random_elements<__half>(bytes, scale);
  if (type == "bf16") return random_elements<__nv_bfloat16>(bytes, scale);
  if (type == "f32") return random_elements<float>(bytes, scale);
  fail("no element type " + type);
}

using Tensors = std::vector<void*>;

int call(void* function, Tensors const& t, void* workspace, std::size_t bytes) {
  using P = void*;
  using B = std::size_t;
  switch (t.size()) {
    case 2: return reinterpret_cast<int (*)(P, P, P, B, P)>(function)(t[0], t[1], workspace, bytes, nullptr);
    case 3: return reinterpret_cast<int (*)(P, P, P, P, B, P)>(function)(t[0], t[1], t[2], workspace, bytes, nullptr);
    case 4:
      return reinterpret_cast<int (*)(P, P, P, P, P, B, P)>(function)(t[0], t[1], t[2], t[3], workspace, bytes, nullptr);
    case 5:
      return reinterpret_cast<int (*)(P, P, P, P, P, P, B, P)>(function)(t[0], t[1], t[2], t[3], t[4], workspace, bytes,
                                                                        nullptr);
  }
  fail("a function of this many tensors is not provided for");
}

void* symbol(void* library, std::string const& name) {
  void* found = dlsym(library, name.c_str());
  if (found == nullptr) fail("the library has no function " + name);
  return found;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) fail("expected LIBRARY FUNCTION CALLS INPUT... OUTPUT");
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) fail(dlerror());
  std::string const name = arguments[2];
  Tensors tensors;
  for (int index = 4; index < count; ++index) {
    char type[8] = "";
    std::size_t bytes = 0;
    float scale = 1;
    if (std::sscanf(arguments[index], "%zu:%7[a-z0-9]:%f", &bytes, type, &scale) != 3)
      fail(std::string("expected BYTES:TYPE:SCALE, not ") + arguments[index]);
    void* tensor = nullptr;
    expect(cudaMalloc(&tensor, bytes), "cudaMalloc");
    if (index + 1 < count)
      expect(cudaMemcpy(tensor, elements(type, bytes, scale).data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    tensors.push_back(tensor);
  }
  auto const needed = reinterpret_cast<std::size_t (*)()>(symbol(library, name + "_workspace_bytes"))();
  void* workspace = nullptr;
  expect(cudaMalloc(&workspace, needed > 0 ? needed : 1), "cudaMalloc");
  void* const run = symbol(library, name + "_run");
  int const calls = std::atoi(arguments[3]);
  for (int index = 0; index < calls; ++index) {
    int const code = call(run, tensors, workspace, needed);
    auto const message = reinterpret_cast<char const* (*)()>(symbol(library, name + "_error"));
    if (code != 0) fail(std::string("the call fails: ") + message());
  }
  expect(cudaDeviceSynchronize(), "the kernels");
  std::printf("ran %d calls\n", calls);
  return 0;
}
