// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Element types of NCCL, and reductions over ranks: in rank order, 16-bit types in fp32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "nccl.hpp"

namespace emulator {
namespace {

/// What elements of T are added in, rounded to T at the end.
template <class T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<__half> {
  using type = float;
};
template <>
struct SumOf<__nv_bfloat16> {
  using type = float;
};

template <class T>
typename SumOf<T>::type load(const void* from, std::size_t index) {
  T element;
  std::memcpy(&element, static_cast<const char*>(host_view(from)) + index * sizeof(T), sizeof(T));
  return static_cast<typename SumOf<T>::type>(element);
}

template <class Sum>
Sum combine(ncclRedOp_t op, Sum a, Sum b) {
  switch (op) {
    case ncclProd: return static_cast<Sum>(a * b);
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
    default: return static_cast<Sum>(a + b);
  }
}

template <class T>
void reduce_as(const std::vector<Arrival>& arrivals, std::size_t first, std::size_t count,
               void* to) {
  using Sum = typename SumOf<T>::type;
  const ncclRedOp_t op = arrivals.front().transfer.reduction.op;
  const auto ranks = static_cast<int>(arrivals.size());
  const auto element = [&](const Arrival& of, std::size_t index) {
    const Reduction& own = of.transfer.reduction;
    const Sum value = load<T>(of.transfer.from, index);
    if (!own.scales) return value;
    const void* const scalar = own.device_scalar ? own.device_scalar : own.scalar;
    return static_cast<Sum>(value * load<T>(scalar, 0));
  };
  for (std::size_t i = 0; i < count; ++i) {
    Sum sum = element(arrivals.front(), first + i);
    for (std::size_t rank = 1; rank < arrivals.size(); ++rank) {
      sum = combine(op, sum, element(arrivals[rank], first + i));
    }
    if (op == ncclAvg) sum = static_cast<Sum>(sum / static_cast<Sum>(ranks));
    const T rounded = static_cast<T>(sum);
    std::memcpy(static_cast<char*>(to) + i * sizeof(T), &rounded, sizeof(T));
  }
}

const char* name_of(ncclDataType_t type) {
  static constexpr const char* names[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                          "ncclUint32",   "ncclInt64",      "ncclUint64",
                                          "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                          "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return bytes_of(type) == 0 ? "an unknown type" : names[type];
}

const char* name_of(const Reduction& reduction) {
  static constexpr const char* names[] = {"sum", "product", "maximum", "minimum", "average"};
  return reduction.scales ? "sum of scaled" : names[reduction.op];
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  static constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return static_cast<unsigned>(type) < std::size(bytes) ? bytes[type] : 0;
}

bool reduces(Op op) { return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce; }

const char* name_of(Op op) {
  static constexpr const char* names[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce",
                                          "ncclBroadcast", "ncclReduce",        "ncclSend",
                                          "ncclRecv"};
  return names[static_cast<int>(op)];
}

std::string describe(const Transfer& t) {
  std::string text = std::string(name_of(t.op)) + " of " + std::to_string(t.count) +
                     " elements of " + name_of(t.type);
  if (reduces(t.op)) text += std::string(" (") + name_of(t.reduction) + ")";
  if (t.op == Op::broadcast || t.op == Op::reduce) text += ", root " + std::to_string(t.peer);
  if (t.op == Op::send) text += " to rank " + std::to_string(t.peer);
  if (t.op == Op::receive) text += " from rank " + std::to_string(t.peer);
  return text;
}

void reduce(const std::vector<Arrival>& arrivals, std::size_t first, std::size_t count, void* to) {
  switch (arrivals.front().transfer.type) {
    case ncclInt8: return reduce_as<std::int8_t>(arrivals, first, count, to);
    case ncclUint8: return reduce_as<std::uint8_t>(arrivals, first, count, to);
    case ncclInt32: return reduce_as<std::int32_t>(arrivals, first, count, to);
    case ncclUint32: return reduce_as<std::uint32_t>(arrivals, first, count, to);
    case ncclInt64: return reduce_as<std::int64_t>(arrivals, first, count, to);
    case ncclUint64: return reduce_as<std::uint64_t>(arrivals, first, count, to);
    case ncclFloat16: return reduce_as<__half>(arrivals, first, count, to);
    case ncclFloat32: return reduce_as<float>(arrivals, first, count, to);
    case ncclFloat64: return reduce_as<double>(arrivals, first, count, to);
    case ncclBfloat16: return reduce_as<__nv_bfloat16>(arrivals, first, count, to);
    default: return;  // Refused when it was called.
  }
}

}  // namespace emulator
