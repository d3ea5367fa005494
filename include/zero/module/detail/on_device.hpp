// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// OnDevice: what a module needs of the device on which its work runs. Standard library only.
#pragma once

namespace zero::detail {

/// What a module needs of the streams that its communicator uses; a specialisation for each type
/// of stream.
///
///   Event, Memory  of the device
///   Staged         so many bytes of the host's for the device to copy from; none where the two are
///                  one
///   Streams        one stream for each StreamId, and copies between the device and the host
///   Store          where optimizer state is kept that is offloaded
///   Work<O>        what runs on the streams, for optimizer O
///   is_host        whether code of the caller's can run on a stream of this device by being called
///   adds_in_reduce whether its communicators can add to what is there; see Accumulate
///   scratch        numbers (double) that it needs to form a norm
template <class Stream>
struct OnDevice {
  static_assert(sizeof(Stream) == 0,
                "zero::shard: what runs on the stream of this communicator is not known here; for "
                "a communicator of CUDA include <zero/cuda.cuh> and compile with nvcc.");
};

}  // namespace zero::detail
