// Self-test of tb::Stage: counted along a loop it is where a division puts an iteration.
#include "harness.h"

using namespace harness;

constexpr int kIterations = 50;
constexpr int kReach = 20;
constexpr int kPlaces = 2 * kReach + 1;
constexpr int kFirst = 3;

// The places around each iteration from kFirst on; numbers that the compiler knows, as in generated code.
template <int kStages, int kStep>
__global__ void count_stages(int* places, int iterations) {
  tb::Stage<kStages> stage = kFirst;
#pragma unroll 1
  for (int it = 0; it < iterations; it += kStep, stage += kStep) {
#pragma unroll
    for (int ahead = -kReach; ahead <= kReach; ++ahead) {
      const auto other = ahead < 0 ? stage - -ahead : stage + ahead;
      places[it * kPlaces + kReach + ahead] = 2 * other.index() + static_cast<int>(other.parity());
    }
  }
}

template <int kStages, int kStep>
void check_stages() {
  int* places;
  constexpr size_t kBytes = kIterations * kPlaces * sizeof(int);
  mugraph::check(cudaMalloc(&places, kBytes), "allocating places");
  mugraph::launch("count_stages", count_stages<kStages, kStep>, dim3(1), dim3(1), 0, cudaStream_t{}, places,
                  kIterations);
  std::vector<int> found(kIterations * kPlaces);
  mugraph::check(cudaMemcpy(found.data(), places, kBytes, cudaMemcpyDeviceToHost), "copying places");
  mugraph::check(cudaFree(places), "freeing places");
  bool is_right = true;
  for (int it = 0; it < kIterations; it += kStep) {
    for (int ahead = -kReach; ahead <= kReach; ++ahead) {
      const int iteration = kFirst + it + ahead;
      if (iteration < 0) continue;
      is_right &= found[it * kPlaces + kReach + ahead] == 2 * (iteration % kStages) + iteration / kStages % 2;
    }
  }
  report(is_right, "stage", "a place differs from that by division");
}

template <int... kStages>
void check_all(std::integer_sequence<int, kStages...>) {
  (check_stages<kStages + 1, 1>(), ...);
  (check_stages<kStages + 1, 4>(), ...);
  (check_stages<kStages + 1, 17>(), ...);
}

int main() {
  check_all(std::make_integer_sequence<int, 16>());
  return finish("stage_test");
}
