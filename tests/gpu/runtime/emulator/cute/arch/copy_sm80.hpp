// Stands in for CuTe's cp.async wrappers when kernels are emulated on the CPU: same names and parameters.
#pragma once

#include <cstdint>

namespace cute {

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEALWAYS {
  static void copy(TS const& source, TD& target) { emulator::async_copy(&target, &source, sizeof(TS)); }
};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEGLOBAL {
  static_assert(sizeof(TS) == 16);
  static void copy(TS const& source, TD& target) { emulator::async_copy(&target, &source, sizeof(TS)); }
};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL {
  static void copy(TS const& source, TD& target, bool exists) {
    emulator::async_copy(&target, exists ? &source : nullptr, sizeof(TS));
  }
};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL {
  static_assert(sizeof(TS) == 16);
  static void copy(TS const& source, TD& target, bool exists) {
    emulator::async_copy(&target, exists ? &source : nullptr, sizeof(TS));
  }
};

inline void cp_async_fence() { emulator::async_commit(); }

template <int kInFlight>
void cp_async_wait() {
  emulator::async_wait(kInFlight);
}

}  // namespace cute
