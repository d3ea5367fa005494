// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// CUDA devices and communicators over NCCL, for a host compiler. Needs the CUDA runtime and NCCL:
// link with zero::cuda in CMake.
#pragma once
#include <zero/comm/nccl/communicator.hpp>
#include <zero/comm/nccl/memory.hpp>
#include <zero/comm/nccl/options.hpp>
#include <zero/device/cuda/device.hpp>
#include <zero/device/cuda/graph.hpp>
#include <zero/device/cuda/range.hpp>
