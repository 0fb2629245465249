// Stands in for CuTe's cp.async wrappers: records both addresses.
#pragma once

#include <cstdint>

namespace cute {

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEALWAYS {
  static void copy(TS const& source, TD& target) {
    recorder::record(&source, sizeof(TS), false, recorder::kAsyncCopy);
    recorder::record(&target, sizeof(TD), true, recorder::kAsyncCopy);
  }
};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEGLOBAL : SM80_CP_ASYNC_CACHEALWAYS<TS, TD> {};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL {
  static void copy(TS const& source, TD& target, bool exists) {
    if (exists) recorder::record(&source, sizeof(TS), false, recorder::kAsyncCopy);
    recorder::record(&target, sizeof(TD), true, recorder::kAsyncCopy);
  }
};

template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL : SM80_CP_ASYNC_CACHEALWAYS_ZFILL<TS, TD> {};

inline void cp_async_fence() {}

template <int kInFlight>
void cp_async_wait() {}

}  // namespace cute
