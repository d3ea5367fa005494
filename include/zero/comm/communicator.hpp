// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a communicator is. Includes base/ and comm/collective.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <zero/base/element.hpp>
#include <zero/comm/collective.hpp>

namespace zero {

/// A rank among others that it talks to. tests/comm/conformance.hpp proves a model of it.
///
/// `size()` ranks, numbered from 0, each with one object; a copy is another name of the same rank.
/// `split(color, key)` blocks and gives a communicator of the ranks with the same color, ordered by
/// key. `sent()` counts bytes. `abort(why)` may be called by any thread, never throws and makes all
/// waiting and later collectives of all ranks fail; `why` is in their errors.
///
/// Collectives, for T any Element and counts in elements; n = size():
///   all_gather(stream, in, out, count): in [count], out [n * count]; rank r's part is at r *
///   count;
///     `in` may be this rank's part of `out`.
///   reduce_scatter(stream, in, out, count, accumulate, label, reduction): in [n * count],
///     out [count] = reduction over ranks of part rank(), or added to `out`; `out` may be this
///     rank's part of `in`.
///   all_reduce(stream, data, count, label, reduction): in place; the same bits on all ranks.
///   broadcast(stream, data, count, root), barrier(stream).
///
/// Order:  enqueued on `stream`, which gives its errors to whoever synchronises it. On one
///         communicator they run in the order in which this rank issued them, on whatever streams.
/// Moves:  each rank sends (n - 1) * count elements for all_gather and reduce_scatter,
///         2 * (n - 1) / n * count for all_reduce.
/// Errors: ContractError, on the calling rank, for null or overlapping buffers or a root that is no
///         rank. CommunicatorError, on all ranks, if they differ in the collective, its type,
///         count, root, reduction, or in unit or position of the label (counts of 0 are compared as
///         well); if a rank left or aborted; TimeoutError if one is late. After such an error the
///         communicator stays failed.
template <class C>
concept Communicator = std::copy_constructible<C> &&
    requires(const C& comm, typename C::Stream& stream, const float* in, float* out,
             std::size_t count, std::size_t root, Accumulate accumulate, Label label,
             Reduction reduction, std::string_view why) {
  { comm.rank() } -> std::same_as<std::size_t>;
  { comm.size() } -> std::same_as<std::size_t>;
  { comm.sent() } -> std::same_as<Traffic>;
  { comm.split(0, 0) } -> std::same_as<C>;
  { comm.abort(why) }
  noexcept;
  comm.all_gather(stream, in, out, count, label);
  comm.reduce_scatter(stream, in, out, count, accumulate, label, reduction);
  comm.all_reduce(stream, out, count, label, reduction);
  comm.broadcast(stream, out, count, root, label);
  comm.barrier(stream, label);
};

}  // namespace zero
