// What generated CUDA files include besides runtime.h where warps of a block have roles: channels, bulk copies and the
// tensor maps that these need.
#pragma once

#include "tb/channel.h"
#include "tb/order_barrier.h"

#if !defined(__CUDACC_RTC__)
#include "tensor_map.h"
#endif
